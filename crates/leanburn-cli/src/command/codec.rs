//! `leanburn encode` and `leanburn decode`.

use clap::Args;
use leanburn_data::{Volume, prepare};
use leanburn_systems::CodecTask;

use super::files::{Files, run_all};
use super::trained::{ModelArguments, check_channels};
use super::window::{BudgetArgument, WindowArguments, with_progress};
use crate::error::Result;

/// `leanburn encode`: the mean of the latent, or vectors of the codebook, a channel a latent channel. `.safetensors` keeps the grid and
/// exact values.
#[derive(Debug, Args)]
pub struct Encode {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    window: WindowArguments,
    #[command(flatten)]
    budget: BudgetArgument,
}

impl Encode {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let jobs = self.files.jobs(&self.model, Some(".safetensors"))?;
        let (config, codec) = self.model.codec()?;
        run_all(jobs, |job| {
            let volume = Volume::read(&job.input)?;
            check_channels(&job.input, &volume, codec.shape().in_channels)?;
            let volume = prepare(volume, &config.data)?.volume;
            let within = self.budget.apply(&codec, CodecTask::Encode, volume.extent())?;
            let codec = within.as_ref().unwrap_or(&codec);
            let latent = with_progress(|progress| codec.encode(&volume, window.as_ref(), progress))?;
            job.output.write_with(|path| latent.write(path))?;
            let [channels, depth, height, width] = latent.shape();
            Ok(format!("latent {channels} x {depth} x {height} x {width}"))
        })
    }
}

/// `leanburn decode`: volumes of latents, in the normalized units that the model was trained in.
#[derive(Debug, Args)]
pub struct Decode {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    window: WindowArguments,
    #[command(flatten)]
    budget: BudgetArgument,
}

impl Decode {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let jobs = self.files.jobs(&self.model, Some(".nii.gz"))?;
        let (_, codec) = self.model.codec()?;
        run_all(jobs, |job| {
            let latent = Volume::read(&job.input)?;
            check_channels(&job.input, &latent, codec.shape().latent_channels)?;
            let within = self.budget.apply(&codec, CodecTask::Decode, latent.extent())?;
            let codec = within.as_ref().unwrap_or(&codec);
            let volume = with_progress(|progress| codec.decode(&latent, window.as_ref(), progress))?;
            job.output.write_with(|path| volume.write(path))?;
            let [channels, depth, height, width] = volume.shape();
            Ok(format!("{channels} x {depth} x {height} x {width}"))
        })
    }
}

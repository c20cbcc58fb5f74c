//! `leanburn reconstruct`.

use clap::Args;
use leanburn_data::{Prepared, SlidingWindow, Volume, prepare};
use leanburn_systems::{Codec, CodecTask, Config};

use super::files::{Files, Job, run_all};
use super::trained::{ModelArguments, check_channels};
use super::window::{BudgetArgument, WindowArguments, with_progress};
use crate::error::Result;

/// `leanburn reconstruct`
#[derive(Debug, Args)]
pub struct Reconstruct {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    window: WindowArguments,
    #[command(flatten)]
    budget: BudgetArgument,
}

impl Reconstruct {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let jobs = self.files.jobs(&self.model, None)?;
        let (config, codec) = self.model.codec()?;
        run_all(jobs, |job| reconstruct(job, &config, &codec, window.as_ref(), &self.budget))
    }
}

/// The reconstruction of a volume, on its own grid and in its units.
fn reconstruct(
    job: &Job,
    config: &Config,
    codec: &Codec,
    window: Option<&SlidingWindow>,
    budget: &BudgetArgument,
) -> Result<String> {
    let volume = Volume::read(&job.input)?;
    check_channels(&job.input, &volume, codec.shape().in_channels)?;
    let Prepared { volume, intensity } = prepare(volume, &config.data)?;
    let within = budget.apply(codec, CodecTask::Reconstruct, volume.extent())?;
    let codec = within.as_ref().unwrap_or(codec);
    let reconstruction = with_progress(|progress| codec.reconstruct(&volume, window, progress))?;
    let difference = l1(reconstruction.data(), volume.data());
    drop(volume);
    let reconstruction = reconstruction.into_original_grid()?.in_units(&intensity);
    job.output.write_with(|path| reconstruction.write(path))?;
    Ok(format!("mean absolute difference {difference:.4} of the normalized range"))
}

fn l1(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / a.len().max(1) as f64
}

//! `leanburn encode` and `leanburn decode`.

use std::path::PathBuf;

use clap::Args;
use leanburn_data::{Volume, prepare};

use super::output::Force;
use super::trained::{ModelArguments, check_channels};
use super::window::{WindowArguments, with_progress};
use crate::console::print_line;
use crate::error::Result;

/// `leanburn encode`
#[derive(Debug, Args)]
pub struct Encode {
    #[command(flatten)]
    model: ModelArguments,
    /// Volume to encode: .nii, .nii.gz, .npy or .safetensors.
    volume: PathBuf,
    /// File for the latent (its mean, or vectors of the codebook), a channel a latent channel; .safetensors keeps the grid and exact values.
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    window: WindowArguments,
}

impl Encode {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let output = self.model.output(&self.out, &self.volume, self.force)?;
        let (config, codec) = self.model.codec()?;
        let volume = Volume::read(&self.volume)?;
        check_channels(&self.volume, &volume, codec.shape().in_channels)?;
        let volume = prepare(volume, &config.data)?.volume;
        let latent = with_progress(|progress| codec.encode(&volume, window.as_ref(), progress))?;
        output.write_with(|path| latent.write(path))?;
        let [channels, depth, height, width] = latent.shape();
        print_line(format_args!("{}: latent {channels} x {depth} x {height} x {width}", self.out.display()))
    }
}

/// `leanburn decode`
#[derive(Debug, Args)]
pub struct Decode {
    #[command(flatten)]
    model: ModelArguments,
    /// Latent to decode, as `leanburn encode` writes it.
    latent: PathBuf,
    /// File for the volume, in the normalized units that the model was trained in.
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    window: WindowArguments,
}

impl Decode {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let output = self.model.output(&self.out, &self.latent, self.force)?;
        let (_, codec) = self.model.codec()?;
        let latent = Volume::read(&self.latent)?;
        check_channels(&self.latent, &latent, codec.shape().latent_channels)?;
        let volume = with_progress(|progress| codec.decode(&latent, window.as_ref(), progress))?;
        output.write_with(|path| volume.write(path))?;
        let [channels, depth, height, width] = volume.shape();
        print_line(format_args!("{}: {channels} x {depth} x {height} x {width}", self.out.display()))
    }
}

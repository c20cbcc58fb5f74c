//! `leanburn encode` and `leanburn decode`.

use std::path::PathBuf;

use clap::Args;
use leanburn_data::{Volume, prepare};
use leanburn_systems::volume::{pad, values};

use super::output::Force;
use super::trained::{ModelArguments, check_channels, scale_affine};
use crate::console::print_line;
use crate::error::Result;

/// `leanburn encode`
#[derive(Debug, Args)]
pub struct Encode {
    #[command(flatten)]
    model: ModelArguments,
    /// Volume to encode: .nii, .nii.gz, .npy or .safetensors.
    volume: PathBuf,
    /// File for the mean of the latent, a channel a latent channel; .safetensors keeps the grid and exact values.
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

impl Encode {
    pub(super) fn run(self) -> Result<()> {
        let output = self.model.output(&self.out, &self.volume, self.force)?;
        let loaded = self.model.load()?;
        let volume = Volume::read(&self.volume)?;
        check_channels(&self.volume, &volume, loaded.model.config().in_channels)?;
        let volume = prepare(volume, &loaded.config.data)?.volume;
        let factor = loaded.downsampling();
        let (data, shape) = pad(volume.data(), volume.shape(), [factor; 3]);
        let (mean, _) = loaded.model.encode(loaded.tensor(&data, shape));
        let [_, channels, depth, height, width] = mean.dims();
        let affine = scale_affine(volume.affine(), factor as f64);
        let latent = Volume::new(values(mean), [channels, depth, height, width], affine)?;
        output.write_with(|path| latent.write(path))?;
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
}

impl Decode {
    pub(super) fn run(self) -> Result<()> {
        let output = self.model.output(&self.out, &self.latent, self.force)?;
        let loaded = self.model.load()?;
        let latent = Volume::read(&self.latent)?;
        check_channels(&self.latent, &latent, loaded.model.config().latent_channels)?;
        let volume = loaded.model.decode(loaded.tensor(latent.data(), latent.shape()));
        let [_, channels, depth, height, width] = volume.dims();
        let affine = scale_affine(latent.affine(), 1.0 / loaded.downsampling() as f64);
        let volume = Volume::new(values(volume), [channels, depth, height, width], affine)?;
        output.write_with(|path| volume.write(path))?;
        print_line(format_args!("{}: {channels} x {depth} x {height} x {width}", self.out.display()))
    }
}

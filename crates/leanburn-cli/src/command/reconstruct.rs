//! `leanburn reconstruct`.

use std::path::PathBuf;

use clap::Args;
use leanburn_data::{Volume, prepare};

use super::output::Force;
use super::trained::{ModelArguments, check_channels};
use super::window::{WindowArguments, with_progress};
use crate::console::print_line;
use crate::error::Result;

/// `leanburn reconstruct`
#[derive(Debug, Args)]
pub struct Reconstruct {
    #[command(flatten)]
    model: ModelArguments,
    /// Volume to reconstruct: .nii, .nii.gz, .npy or .safetensors.
    volume: PathBuf,
    /// File for the reconstruction, on the volume's own grid and in its units.
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    window: WindowArguments,
}

impl Reconstruct {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?;
        let output = self.model.output(&self.out, &self.volume, self.force)?;
        let (config, codec) = self.model.codec()?;
        let volume = Volume::read(&self.volume)?;
        check_channels(&self.volume, &volume, codec.shape().in_channels)?;
        let prepared = prepare(volume, &config.data)?;
        let reconstruction = with_progress(|progress| codec.reconstruct(&prepared.volume, window.as_ref(), progress))?;
        let difference = l1(reconstruction.data(), prepared.volume.data());
        let reconstruction = reconstruction.to_original_grid()?;
        let mut data = reconstruction.data().to_vec();
        prepared.intensity.invert(&mut data);
        let reconstruction = reconstruction.with_data(data, reconstruction.channels())?;
        output.write_with(|path| reconstruction.write(path))?;
        let out = self.out.display();
        print_line(format_args!("{out}: mean absolute difference {difference:.4} of the normalized range"))
    }
}

fn l1(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / a.len().max(1) as f64
}

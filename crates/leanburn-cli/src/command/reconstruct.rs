//! `leanburn reconstruct`.

use std::path::PathBuf;

use clap::Args;
use leanburn_data::{SlidingWindow, Volume, prepare};
use leanburn_systems::volume::through;

use super::output::Force;
use super::trained::{Loaded, ModelArguments, check_channels};
use super::window::WindowArguments;
use crate::console::print_line;
use crate::error::Result;
use crate::progress::Progress;

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
        let loaded = self.model.load()?;
        let volume = Volume::read(&self.volume)?;
        check_channels(&self.volume, &volume, loaded.model.config().in_channels)?;
        let prepared = prepare(volume, &loaded.config.data)?;
        let data = match window {
            None => reconstruct(&loaded, prepared.volume.data(), prepared.volume.shape()),
            Some(window) => slide(&loaded, &prepared.volume, &window)?,
        };
        let difference = l1(&data, prepared.volume.data());
        let channels = loaded.model.config().out_channels;
        let reconstruction = prepared.volume.with_data(data, channels)?.to_original_grid()?;
        let mut data = reconstruction.data().to_vec();
        prepared.intensity.invert(&mut data);
        let reconstruction = reconstruction.with_data(data, channels)?;
        output.write_with(|path| reconstruction.write(path))?;
        let out = self.out.display();
        print_line(format_args!("{out}: mean absolute difference {difference:.4} of the normalized range"))
    }
}

/// The reconstruction of voxels of any extent: padded to what the model takes, and cropped again.
fn reconstruct(loaded: &Loaded, data: &[f32], shape: [usize; 4]) -> Vec<f32> {
    let model = |data: &[f32], shape| loaded.model.reconstruct(loaded.tensor(data, shape));
    through(data, shape, [loaded.downsampling(); 3], model)
}

fn slide(loaded: &Loaded, volume: &Volume, window: &SlidingWindow) -> Result<Vec<f32>> {
    let mut progress = Progress::new("patches", window.count(volume.extent()) as u64, 0);
    let data = window.run(volume, loaded.model.config().out_channels, |patch, shape| {
        let output = reconstruct(loaded, patch, shape);
        progress.step(String::new);
        output
    })?;
    progress.finish();
    Ok(data)
}

fn l1(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / a.len().max(1) as f64
}

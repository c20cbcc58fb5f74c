//! `leanburn reconstruct`.

use std::path::PathBuf;

use clap::Args;
use leanburn_data::{SlidingWindow, Volume, prepare};
use leanburn_systems::SystemError;
use leanburn_systems::volume::through;

use super::trained::{Loaded, ModelArguments, check_channels, check_output};
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
    /// Go through the volume in overlapping patches of this size: --patch 64,64,64. Without, the whole volume at once.
    #[arg(long, value_delimiter = ',')]
    patch: Option<Vec<usize>>,
    /// How much neighbouring patches overlap, as a share of their size.
    #[arg(long, default_value_t = 0.25, requires = "patch")]
    overlap: f64,
}

impl Reconstruct {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window()?;
        check_output(&self.out, [&self.volume, &self.model.weights])?;
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
        reconstruction.with_data(data, channels)?.write(&self.out)?;
        let out = self.out.display();
        print_line(format_args!("{out}: mean absolute difference {difference:.4} of the normalized range"))
    }

    fn window(&self) -> Result<Option<SlidingWindow>> {
        let Some(patch) = &self.patch else {
            return Ok(None);
        };
        let reject = |expected: &str| SystemError::Input {
            subject: "--patch".into(),
            expected: expected.into(),
            found: format!("{patch:?} with --overlap {}", self.overlap),
            remedy: "for instance --patch 64,64,64 --overlap 0.25".into(),
        };
        let size = match patch[..] {
            [side] => [side; 3],
            [depth, height, width] => [depth, height, width],
            _ => return Err(reject("one size for all axes, or one for each").into()),
        };
        match SlidingWindow::new(size, self.overlap) {
            Some(window) => Ok(Some(window)),
            None => Err(reject("sizes of at least 1 and an overlap of at least 0 and below 1").into()),
        }
    }
}

/// The reconstruction of voxels of any extent: padded to what the model takes, and cropped again.
fn reconstruct(loaded: &Loaded, data: &[f32], shape: [usize; 4]) -> Vec<f32> {
    let model = |data: &[f32], shape| loaded.model.reconstruct(loaded.tensor(data, shape));
    through(data, shape, loaded.downsampling(), model)
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

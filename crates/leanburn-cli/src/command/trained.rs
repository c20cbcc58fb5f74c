//! A trained model and the files of volumes: shared by `reconstruct`, `encode`, `decode` and `segment`.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use clap::Args;
use leanburn_data::{Affine, Format, Volume};
use leanburn_nn::models::AutoencoderKl;
use leanburn_systems::autoencoder::trained_model;
use leanburn_systems::device::device_for;
use leanburn_systems::volume::tensor;
use leanburn_systems::{Config, SystemError, SystemSection};

use super::output::{Force, Output};
use crate::error::{CommandError, Result};

/// A trained model and where it runs.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    /// Weights of the model: .safetensors, .pt or .ckpt, ours or MONAI's.
    pub weights: PathBuf,
    /// Configuration of the model; by default the config.yaml in the folder of the weights.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Device, as `leanburn devices` names it.
    #[arg(long, default_value = "flex")]
    pub device: String,
}

/// A model ready to use.
pub(super) struct Loaded {
    pub config: Config,
    pub model: AutoencoderKl,
    pub device: Device,
}

impl ModelArguments {
    /// The model's configuration, its name for messages, and the device.
    pub fn config(&self) -> Result<(Config, String, Device)> {
        let path = self.config_path();
        if self.config.is_none() && !path.is_file() {
            let error = SystemError::Input {
                subject: self.weights.display().to_string(),
                expected: format!("the model's configuration in the same folder, {}", path.display()),
                found: "none".into(),
                remedy: "give the configuration with --config".into(),
            };
            return Err(error.into());
        }
        let config = Config::load(&path, &[])?;
        let device = device_for(&self.device, config.device.resolved_precision())?;
        Ok((config, path.display().to_string(), device))
    }

    fn config_path(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.weights.with_file_name("config.yaml"))
    }

    /// The file for what the model makes of `volume`; its name must be that of a volume.
    pub fn output(&self, path: &Path, volume: &Path, force: Force) -> Result<Output> {
        Format::of(path)?;
        Output::new(path, &[volume.to_path_buf(), self.weights.clone(), self.config_path()], force)
    }

    /// The autoencoder.
    pub fn load(&self) -> Result<Loaded> {
        let (config, name, device) = self.config()?;
        let SystemSection::Autoencoder(section) = &config.system else {
            let remedy =
                "volumes go through autoencoders alone so far; a run's pictures show what other models make of them";
            return Err(other_system(&config, name, "autoencoder", remedy));
        };
        let model = trained_model(section, &config.context(&name), &self.weights, &device)?;
        Ok(Loaded { config, model, device })
    }
}

/// The error of a configuration, called `name`, of another system than the one that is needed.
pub(super) fn other_system(config: &Config, name: String, needed: &str, remedy: &str) -> CommandError {
    let error = SystemError::Input {
        subject: name,
        expected: format!("a configuration with a section `{needed}`"),
        found: format!("a section `{}`", config.system_name()),
        remedy: remedy.into(),
    };
    error.into()
}

impl Loaded {
    /// By how much the latent is smaller than the volume, on each axis.
    pub fn downsampling(&self) -> usize {
        self.model.config().downsampling()
    }

    pub fn tensor(&self, data: &[f32], shape: [usize; 4]) -> Tensor<5> {
        self.config.device.resolved_precision().cast(tensor(data, shape, &self.device))
    }
}

/// Rejects a volume of other channels than the model takes.
pub(super) fn check_channels(path: &Path, volume: &Volume, expected: usize) -> Result<()> {
    match volume.channels() == expected {
        true => Ok(()),
        false => Err(SystemError::Input {
            subject: path.display().to_string(),
            expected: format!("{expected} channels, as the model has"),
            found: volume.channels().to_string(),
            remedy: "give the volume that the model was trained on, or the model that goes with it".into(),
        }
        .into()),
    }
}

/// The affine of a grid whose voxels are `factor` times as large: its first voxel's centre moves with them.
pub(super) fn scale_affine(affine: &Affine, factor: f64) -> Affine {
    let mut scaled = *affine;
    for row in scaled.iter_mut().take(3) {
        let shift: f64 = row[..3].iter().map(|step| step * (factor - 1.0) / 2.0).sum();
        row[3] += shift;
        row[..3].iter_mut().for_each(|step| *step *= factor);
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarser_grid_covers_the_same_space() {
        let affine = [[2.0, 0.0, 0.0, -9.0], [0.0, 1.0, 0.0, 5.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let coarse = scale_affine(&affine, 4.0);
        // the corner before the first voxel stays: centre minus half a voxel
        for axis in 0..3 {
            let corner = |affine: &Affine| affine[axis][3] - affine[axis][axis] / 2.0;
            assert_eq!(corner(&coarse), corner(&affine));
        }
        assert_eq!(scale_affine(&coarse, 0.25), affine);
    }
}

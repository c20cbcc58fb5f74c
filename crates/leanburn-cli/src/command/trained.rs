//! A trained model and the files of volumes: shared by `reconstruct`, `encode`, `decode` and `segment`.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use leanburn_data::Volume;
use leanburn_systems::device::device_for;
use leanburn_systems::{Codec, Config, SystemError, weights_of};

use crate::error::{CommandError, Result};

/// A trained model and where it runs.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    /// Weights of the model: the folder of a run, or a file (.safetensors, .pt or .ckpt, ours or MONAI's).
    #[arg(value_parser = PathBufValueParser::new().map(|path| weights_of(&path)))]
    pub weights: PathBuf,
    /// Configuration of the model; by default the config.yaml in the folder of the weights.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Device, as `leanburn devices` names it.
    #[arg(long, default_value = "flex")]
    pub device: String,
}

impl ModelArguments {
    /// The model's configuration, its name for messages, and the device.
    pub fn config(&self) -> Result<(Config, String, Device)> {
        self.config_with(&[])
    }

    /// The same with keys that are set, each `section.key=value`.
    pub fn config_with(&self, set: &[String]) -> Result<(Config, String, Device)> {
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
        let mut config = Config::load(&path, set)?;
        let device = device_for(&self.device, config.device.resolved_precision())?;
        config.device.name.clone_from(&self.device); // of the first stage of a diffusion model, too
        Ok((config, path.display().to_string(), device))
    }

    fn config_path(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.weights.with_file_name("config.yaml"))
    }

    /// The files that the model is read from.
    pub fn files(&self) -> [PathBuf; 2] {
        [self.weights.clone(), self.config_path()]
    }

    /// The model as a codec, with its configuration.
    pub fn codec(&self) -> Result<(Config, Codec)> {
        let (config, name, device) = self.config()?;
        match config.codec(&name, &self.weights, &device)? {
            Some(codec) => Ok((config, codec)),
            None => {
                let remedy = "`leanburn segment` labels volumes, `leanburn predict` predicts fields";
                Err(other_system(&config, name, "autoencoder`, `vae3d` or `vqvae", remedy))
            }
        }
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

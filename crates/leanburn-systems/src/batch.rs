//! The shape of a micro-batch, as the configuration has it.

use burn::tensor::{Device, Distribution, Tensor};

use super::{Batch, autoencoder, perceptual, voxels};
use crate::config::{Config, SystemSection};
use crate::error::{CommandError, Result};

/// Shapes of what is seen and, of a forecaster, of what is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Volumes `[batch_size, channels, depth, height, width]`, or fields `[batch_size, input_days, channels, height, width]`.
    pub input: [usize; 5],
    /// `[batch_size, predict_days, height, width]`.
    pub target: Option<[usize; 4]>,
}

impl BatchShape {
    /// The shapes for `micro_batch` items of an extent: depth, height and width, of a forecaster the days that it sees,
    /// height and width.
    pub fn of(config: &Config, micro_batch: usize, [depth, height, width]: [usize; 3]) -> Self {
        let volumes = |channels: usize| Self { input: [micro_batch, channels, depth, height, width], target: None };
        match &config.system {
            SystemSection::Autoencoder(section) => volumes(section.in_channels),
            SystemSection::Vae3d(section) => volumes(section.in_channels),
            SystemSection::VqVae(section) => volumes(section.in_channels),
            SystemSection::Forecaster(section) => {
                let days = config.sequence.as_ref().map_or(1, |sequence| sequence.predict_days);
                let target = Some([micro_batch, days, height, width]);
                Self { input: [micro_batch, depth, section.in_channels, height, width], target }
            }
        }
    }

    /// A batch of zeros.
    pub fn zeros(&self, device: &Device) -> Batch {
        (Tensor::zeros(self.input, device), self.target.map(|target| Tensor::zeros(target, device)))
    }

    /// A batch of noise between 0 and 1.
    pub fn random(&self, device: &Device) -> Batch {
        let uniform = Distribution::Uniform(0.0, 1.0);
        (Tensor::random(self.input, uniform, device), self.target.map(|target| Tensor::random(target, uniform, device)))
    }

    /// Bytes of a batch.
    pub fn bytes(&self) -> u64 {
        let count = |shape: &[usize]| shape.iter().map(|&length| length as u64).product::<u64>();
        4 * (count(&self.input) + self.target.map_or(0, |target| count(&target)))
    }

    /// Checks that the configured models can take such a batch; `name` is what it is made of.
    ///
    /// # Errors
    ///
    /// [`CommandError::Shape`], [`CommandError::Input`].
    pub fn check(&self, config: &Config, name: &str) -> Result<()> {
        let refuse = |reason| CommandError::Shape { volume: name.to_string(), reason };
        let [_, _, extent @ ..] = self.input;
        if let Some(section) = config.system.perceptual() {
            perceptual::check(section, name, extent)?;
        }
        match &config.system {
            SystemSection::Autoencoder(section) => {
                autoencoder::check_discriminator(section, name, extent)?;
                autoencoder::model(section).check_input(self.input).map_err(refuse)
            }
            SystemSection::Vae3d(section) => voxels::vae(section).check_input(self.input).map_err(refuse),
            SystemSection::VqVae(section) => voxels::vq_vae(section).check_input(self.input).map_err(refuse),
            SystemSection::Forecaster(section) if self.input[2] != section.in_channels => Err(CommandError::Input {
                subject: name.to_string(),
                expected: format!("{} channels, as forecaster.in_channels says", section.in_channels),
                found: self.input[2].to_string(),
                remedy: "set forecaster.in_channels, or name the channels in sequence.use_channels".into(),
            }),
            SystemSection::Forecaster(_) => Ok(()),
        }
    }
}

/// By how much depth, height and width are divided: what sizes of volumes must be multiples of.
pub fn multiples(config: &Config) -> [usize; 3] {
    match &config.system {
        SystemSection::Autoencoder(section) => [autoencoder::model(section).downsampling(); 3],
        SystemSection::Vae3d(section) => voxels::vae(section).downsampling().unwrap_or([1; 3]),
        SystemSection::VqVae(section) => [voxels::vq_vae(section).downsampling().unwrap_or(1); 3],
        SystemSection::Forecaster(_) => [1; 3],
    }
}

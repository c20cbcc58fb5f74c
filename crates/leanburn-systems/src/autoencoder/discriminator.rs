//! The discriminators of the autoencoder: MONAI's of one scale, or of several.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_nn::models::{
    MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, PatchDiscriminator, PatchDiscriminatorConfig,
};
use leanburn_nn::weights::{self, WeightsError};
use leanburn_ops::ResidencyPolicy;
use leanburn_train::Critic;
use serde::Serialize;

use crate::error::{Result, SystemError};
use crate::shared::{Context, drawn, reject, with_methods};
use crate::yaml::{MANY, POSITIVE, Section};

/// A patch discriminator of one or several scales.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiscriminatorSection {
    /// Layers that halve the resolution. Default: 3.
    pub num_layers_d: usize,
    /// Channels of the first layer. Default: 32.
    pub num_channels: usize,
    /// Width of the convolutions. Default: 4.
    pub kernel_size: usize,
    /// Discriminators, each at half the resolution of the one before. Default: 1.
    pub num_scales: usize,
    /// Learning rate of the discriminator. Default: the autoencoder's.
    pub learning_rate: Option<f64>,
}

impl Default for DiscriminatorSection {
    fn default() -> Self {
        Self { num_layers_d: 3, num_channels: 32, kernel_size: 4, num_scales: 1, learning_rate: None }
    }
}

with_methods! { DiscriminatorSection {
    with_num_layers_d => num_layers_d: usize,
    with_num_channels => num_channels: usize,
    with_kernel_size => kernel_size: usize,
    with_num_scales => num_scales: usize,
    with_learning_rate => learning_rate: Option<f64>,
} }

impl DiscriminatorSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            num_layers_d: section.number("num_layers_d", default.num_layers_d, 1..=16),
            num_channels: section.number("num_channels", default.num_channels, 1..=MANY),
            kernel_size: section.number("kernel_size", default.kernel_size, 1..=32),
            num_scales: section.number("num_scales", default.num_scales, 1..=8),
            learning_rate: section.number("learning_rate", default.learning_rate, POSITIVE),
        }
    }

    /// Builds it for volumes of so many channels.
    ///
    /// # Errors
    ///
    /// [`SystemError::Model`].
    pub(super) fn init(
        &self,
        context: &Context<'_>,
        channels: usize,
        policy: &ResidencyPolicy,
        device: &Device,
    ) -> Result<Discriminator> {
        const KEY: &str = "autoencoder.training.discriminator";
        let single = PatchDiscriminatorConfig::new(channels, self.num_channels)
            .with_num_layers_d(self.num_layers_d)
            .with_kernel_size(self.kernel_size);
        if self.num_scales == 1 {
            reject(context, KEY, single.mistakes())?;
            return Ok(Discriminator::Patch(
                drawn(device, |device| single.init(device)).with_residency(policy.clone()),
            ));
        }
        let mut several = MultiScalePatchDiscriminatorConfig::new(self.num_scales, single);
        if let Some(size) = context.data.patch_size.or(context.data.voxel_size) {
            several = several.with_minimum_size(size.into_iter().min().unwrap_or(1));
        }
        reject(context, KEY, several.mistakes())?;
        Ok(Discriminator::MultiScale(drawn(device, |device| several.init(device)).with_residency(policy.clone())))
    }

    /// Checks that something is left of a volume after the discriminator's convolutions.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`].
    pub(super) fn check_sample(&self, name: &str, extent: [usize; 3]) -> Result<()> {
        if extent.into_iter().all(|length| self.is_enough(length)) {
            return Ok(());
        }
        let least = (1..=1 << 20).find(|&length| self.is_enough(length));
        let least = least.map_or("more".to_string(), |least| least.to_string());
        Err(SystemError::Input {
            subject: name.to_string(),
            expected: format!(
                "at least {least} voxels along each axis, for autoencoder.training.discriminator to judge"
            ),
            found: format!("{extent:?}"),
            remedy: "lower its num_layers_d, or enlarge data.patch_size or data.voxel_size".into(),
        })
    }

    /// Whether something is left of an axis of so many voxels.
    fn is_enough(&self, length: usize) -> bool {
        // MONAI's: one scale has a padding of 1 and a last kernel like the others, of several each keeps its size
        let (padding, last_kernel) = match self.num_scales {
            1 => (1, self.kernel_size),
            _ => ((self.kernel_size - 1) / 2, 1),
        };
        let convolve = |size: usize, kernel: usize, padding: usize, stride: usize| {
            (size + 2 * padding).checked_sub(kernel).map(|free| free / stride + 1)
        };
        let halved = (0..self.num_layers_d * self.num_scales)
            .try_fold(length, |size, _| convolve(size, self.kernel_size, padding, 2));
        halved
            .and_then(|size| convolve(size, self.kernel_size, padding, 1))
            .and_then(|size| convolve(size, last_kernel, (last_kernel - 1) / 2, 1))
            .is_some()
    }
}

/// The discriminator of a configuration: MONAI's of one scale, or its of several.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Discriminator {
    /// One scale.
    Patch(PatchDiscriminator),
    /// Several scales.
    MultiScale(MultiScalePatchDiscriminator),
}

impl Critic for Discriminator {
    fn judge(&self, volumes: Tensor<5>) -> Vec<Tensor<5>> {
        match self {
            Self::Patch(model) => model.judge(volumes),
            Self::MultiScale(model) => model.judge(volumes),
        }
    }
}

impl Discriminator {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        match self {
            Self::Patch(model) => model.segments(),
            Self::MultiScale(model) => model.segments(),
        }
    }

    /// Saves the weights in MONAI's names.
    ///
    /// # Errors
    ///
    /// As [`weights::save_safetensors`].
    pub fn save(&self, path: &Path) -> std::result::Result<(), WeightsError> {
        match self {
            Self::Patch(model) => weights::save_safetensors(model, path),
            Self::MultiScale(model) => weights::save_safetensors(model, path),
        }
    }
}

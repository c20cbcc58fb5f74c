//! The discriminators of the autoencoder: MONAI's of one scale, or of several.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_nn::models::{
    MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, PatchDiscriminator, PatchDiscriminatorConfig,
};
use leanburn_nn::weights::{self, Matched, WeightsError};
use leanburn_ops::{ResidencyPolicy, Unstreamable};
use leanburn_train::Critic;
use serde::Serialize;

use crate::error::{Result, SystemError};
use crate::shared::{Context, of_section, with_methods};
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

    /// The configuration of its one scale.
    fn single(&self, channels: usize) -> PatchDiscriminatorConfig {
        PatchDiscriminatorConfig::new(channels, self.num_channels)
            .with_num_layers_d(self.num_layers_d)
            .with_kernel_size(self.kernel_size)
    }

    /// The configuration of its several scales.
    fn several(&self, context: &Context<'_>, channels: usize) -> MultiScalePatchDiscriminatorConfig {
        let several = MultiScalePatchDiscriminatorConfig::new(self.num_scales, self.single(channels));
        match context.data.patch_size.or(context.data.voxel_size) {
            Some(size) => several.with_minimum_size(size.into_iter().min().unwrap_or(1)),
            None => several,
        }
    }

    /// What is wrong with it, for volumes of so many channels.
    pub(super) fn validate(&self, context: &Context<'_>, channels: usize) -> Vec<ValidationError> {
        let errors = match self.num_scales {
            1 => self.single(channels).validate(),
            _ => self.several(context, channels).validate(),
        };
        of_section(errors, KEY, &NAMES)
    }

    /// Builds it for volumes of so many channels.
    pub(super) fn init(
        &self,
        context: &Context<'_>,
        channels: usize,
        policy: &ResidencyPolicy,
        device: &Device,
    ) -> Discriminator {
        if self.num_scales == 1 {
            let config = self.single(channels);
            return Discriminator::Patch(config.init(device).with_residency(policy.clone()));
        }
        let config = self.several(context, channels);
        Discriminator::MultiScale(config.init(device).with_residency(policy.clone()))
    }

    /// Checks that something is left of a volume after the discriminator's convolutions.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`].
    pub(super) fn check_sample(&self, name: &str, shape: [usize; 5]) -> Result<()> {
        let [_, channels, ..] = shape;
        let checked = match self.num_scales {
            1 => self.single(channels).check_input(shape),
            scales => MultiScalePatchDiscriminatorConfig::new(scales, self.single(channels)).check_input(shape),
        };
        checked.map_err(|error| {
            let error = error.into_validation_error(KEY);
            SystemError::Input {
                subject: name.to_string(),
                expected: format!("{}, for {KEY}", error.expected),
                found: error.found,
                remedy: "lower its num_layers_d, or enlarge data.patch_size or data.voxel_size".into(),
            }
        })
    }
}

const KEY: &str = "autoencoder.training.discriminator";

/// Fields of the models' configurations whose keys have other names.
const NAMES: [(&str, &str); 6] = [
    ("channels", "autoencoder.training.discriminator.num_channels"),
    ("discriminator.channels", "autoencoder.training.discriminator.num_channels"),
    ("discriminator", KEY),
    ("discriminator.num_layers_d", "autoencoder.training.discriminator.num_layers_d"),
    ("num_scales", "autoencoder.training.discriminator.num_scales"),
    ("minimum_size", "autoencoder.training.discriminator.num_scales"),
];

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
    fn logits(&self, volumes: Tensor<5>) -> Vec<Tensor<5>> {
        match self {
            Self::Patch(model) => model.logits(volumes),
            Self::MultiScale(model) => model.logits(volumes),
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

    /// What stands against streaming each segment, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        match self {
            Self::Patch(model) => model.unstreamable(),
            Self::MultiScale(model) => model.unstreamable(),
        }
    }

    /// Loads the weights that fit.
    ///
    /// # Errors
    ///
    /// As [`weights::load_matching`].
    pub fn load_matching(&mut self, path: &Path) -> std::result::Result<Matched, WeightsError> {
        match self {
            Self::Patch(model) => weights::load_matching(model, path),
            Self::MultiScale(model) => weights::load_matching(model, path),
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

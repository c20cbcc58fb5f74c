//! Patch discriminators at several scales.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{AvgPool3d, ResidencyPolicy, Unstreamable, avg_pool3d};

use super::config::PatchDiscriminatorConfig;
use super::model::PatchDiscriminator;
use crate::models::shape_error::ShapeError;
use crate::validation::MAX_LEVELS;

/// The most discriminators that make sense.
const MAX_SCALES: usize = 8;

/// Configuration of [`MultiScalePatchDiscriminator`].
#[derive(Config, Debug, PartialEq)]
pub struct MultiScalePatchDiscriminatorConfig {
    /// Number of discriminators.
    pub num_scales: usize,
    /// The first discriminator. As in MONAI the padding is computed here, `(kernel_size - 1) / 2`, and the last kernel
    /// has size 1 unless given.
    pub discriminator: PatchDiscriminatorConfig,
    /// How the scales differ. Without (MONAI): all see the volume as it is, and discriminator `i` has
    /// `(i + 1) * num_layers_d` layers. With (pix2pixHD): all have the same layers, and discriminator `i` sees the
    /// volume averaged to half size `i` times.
    #[config(default = false)]
    pub average_pooling: bool,
    /// Size of the smallest axis of the volumes to come; it must leave at least one voxel at the coarsest scale.
    #[config(default = 256)]
    pub minimum_size: usize,
}

impl MultiScalePatchDiscriminatorConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("discriminator", self.discriminator.validate());
        let sound = (1..=MAX_SCALES).contains(&self.num_scales);
        let expected = format!("an integer from 1 to {MAX_SCALES}");
        validation.check(sound, "num_scales", &expected, self.num_scales, "correct this number");
        let layers = self.discriminator.num_layers_d;
        let halvings = match self.average_pooling {
            true => layers.saturating_add(self.num_scales.saturating_sub(1)),
            false => layers.saturating_mul(self.num_scales),
        };
        validation.check_together(
            !sound || self.average_pooling || halvings <= MAX_LEVELS,
            &["discriminator.num_layers_d"],
            "num_scales",
            &format!("at most {MAX_LEVELS} layers at the last scale"),
            format!("{halvings} layers"),
            "lower `num_scales` or `num_layers_d`",
        );
        let coarsest = u32::try_from(halvings).ok().and_then(|halvings| self.minimum_size.checked_shr(halvings));
        validation.check_together(
            !sound || coarsest.is_some_and(|length| length > 0),
            &["num_scales", "discriminator.num_layers_d"],
            "minimum_size",
            "an axis that lasts to the coarsest scale",
            format!("{} voxels, halved {halvings} times", self.minimum_size),
            "lower `num_scales` or `num_layers_d`, or take larger volumes",
        );
        validation.errors()
    }

    /// Whether the convolutions of every scale leave something of an input `[batch_size, channels, depth, height, width]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let scales: Vec<_> = self.scales().collect();
        let is_enough = |length: usize| {
            let pooled = |scale: usize| if self.average_pooling { length >> scale } else { length };
            let mut lengths = scales.iter().enumerate().map(|(scale, config)| config.length_of_logits(pooled(scale)));
            lengths.all(|length| length.is_some())
        };
        ShapeError::unless_large_enough(shape, self.discriminator.in_channels, is_enough)
    }

    /// The configuration of each discriminator.
    fn scales(&self) -> impl Iterator<Item = PatchDiscriminatorConfig> + '_ {
        (0..self.num_scales).map(|scale| {
            let mut config = self.discriminator.clone();
            config.padding = (config.kernel_size - 1) / 2;
            config.last_conv_kernel_size.get_or_insert(1);
            if !self.average_pooling {
                config.num_layers_d *= scale + 1;
            }
            config
        })
    }

    /// Makes the model.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> MultiScalePatchDiscriminator {
        panic_if_invalid("MultiScalePatchDiscriminator", &self.validate());
        let named = self.scales().enumerate();
        let discriminators =
            named.map(|(scale, config)| PatchDiscriminator::new(&format!("discriminator_{scale}"), &config, device));
        MultiScalePatchDiscriminator { discriminators: discriminators.collect(), average_pooling: self.average_pooling }
    }
}

/// Patch discriminators at several scales; MONAI's `MultiScalePatchDiscriminator` unless `average_pooling` is set.
#[derive(Module, Debug)]
pub struct MultiScalePatchDiscriminator {
    discriminators: Vec<PatchDiscriminator>,
    average_pooling: bool,
}

/// What the discriminators of all scales give.
#[derive(Clone, Debug)]
pub struct MultiScaleFeatures {
    /// The logits of each scale.
    pub logits: Vec<Tensor<5>>,
    /// The outputs of all layers before it, for each scale.
    pub features: Vec<Vec<Tensor<5>>>,
}

impl MultiScalePatchDiscriminator {
    /// Sets which segments keep their saved activations; results and gradients do not depend on it.
    #[must_use]
    pub fn with_residency(mut self, residency: ResidencyPolicy) -> Self {
        let scales = self.discriminators.into_iter();
        self.discriminators = scales.map(|discriminator| discriminator.with_residency(residency.clone())).collect();
        self
    }

    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        self.discriminators.iter().flat_map(PatchDiscriminator::segments).collect()
    }

    /// What stands against streaming each segment, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        self.discriminators.iter().flat_map(PatchDiscriminator::unstreamable).collect()
    }

    /// The logits and features of every scale.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - logits of each scale: `[batch_size, out_channels, ..]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels or is smaller than a kernel at any layer.
    pub fn forward(&self, x: Tensor<5>) -> MultiScaleFeatures {
        let mut scales = MultiScaleFeatures { logits: Vec::new(), features: Vec::new() };
        let mut seen = x;
        for (scale, discriminator) in self.discriminators.iter().enumerate() {
            if self.average_pooling && scale > 0 {
                seen = avg_pool3d(seen, AvgPool3d::new([2; 3]));
            }
            let mut features = discriminator.forward(seen.clone());
            scales.logits.extend(features.pop());
            scales.features.push(features);
        }
        scales
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;
    use crate::validation::keys;

    fn config(average_pooling: bool) -> MultiScalePatchDiscriminatorConfig {
        let discriminator = PatchDiscriminatorConfig::new(1, 2).with_num_layers_d(1);
        MultiScalePatchDiscriminatorConfig::new(2, discriminator)
            .with_minimum_size(24)
            .with_average_pooling(average_pooling)
    }

    #[test]
    fn scales_differ_by_layers_or_by_pooling() {
        let device = Device::flex();
        let x = Tensor::random([1, 1, 24, 24, 24], Distribution::Default, &device);
        for (average_pooling, layers, sizes) in [(false, [2, 3], [11, 5]), (true, [2, 2], [11, 5])] {
            let said = config(average_pooling).init(&device).forward(x.clone());
            let shapes: Vec<_> = said.logits.iter().map(|output| output.dims()).collect();
            assert_eq!(shapes, sizes.map(|size| [1, 1, size, size, size]), "{average_pooling}");
            assert_eq!(said.features.iter().map(Vec::len).collect::<Vec<_>>(), layers, "{average_pooling}");
        }
    }

    #[test]
    fn the_volume_must_outlast_the_halvings() {
        let size = |minimum, pooling| config(pooling).with_minimum_size(minimum).validate().len();
        assert_eq!([size(4, false), size(3, false), size(4, true), size(3, true)], [0, 1, 0, 1]);
        let scales = |num_scales, pooling| MultiScalePatchDiscriminatorConfig { num_scales, ..config(pooling) };
        assert_eq!(keys(scales(1000, false).validate()), ["num_scales"]);
        assert_eq!(keys(scales(0, true).validate()), ["num_scales"]);
        let layers = MultiScalePatchDiscriminatorConfig::new(6, PatchDiscriminatorConfig::new(1, 2)).validate();
        assert_eq!(keys(layers), ["num_scales", "minimum_size"]);
    }

    #[test]
    fn every_scale_takes_the_smallest_volume_that_fits() {
        let device = Device::flex();
        for average_pooling in [false, true] {
            let config = config(average_pooling);
            let error = config.check_input([1, 1, 2, 64, 64]).unwrap_err();
            let ShapeError::TooSmall { least, .. } = error else { panic!("{error}") };
            config.init(&device).forward(Tensor::zeros([1, 1, least, least, least], &device));
            assert!(config.check_input([1, 1, least - 1, 64, 64]).is_err());
        }
    }
}

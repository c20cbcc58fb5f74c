//! Patch discriminators at several scales.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{AvgPool3d, ResidencyPolicy, avg_pool3d};

use super::{PatchDiscriminator, PatchDiscriminatorConfig};
use crate::models::refuse;

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
    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = self.discriminator.mistakes();
        if self.num_scales == 0 {
            mistakes.push(("num_scales", "is 0; give at least 1".to_string()));
        }
        let layers = self.discriminator.num_layers_d;
        let halvings = match self.average_pooling {
            true => layers.saturating_add(self.num_scales.saturating_sub(1)),
            false => layers.saturating_mul(self.num_scales),
        };
        if !self.average_pooling && halvings > 16 {
            mistakes.push(("num_scales", format!("the last scale has {halvings} layers, 16 are the most")));
        }
        let coarsest = u32::try_from(halvings).ok().and_then(|halvings| self.minimum_size.checked_shr(halvings));
        if coarsest.unwrap_or(0) == 0 {
            let message = format!(
                "an axis of {} is gone after {halvings} halvings; give fewer num_scales or num_layers_d, or larger volumes",
                self.minimum_size
            );
            mistakes.push(("minimum_size", message));
        }
        mistakes
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
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> MultiScalePatchDiscriminator {
        refuse("MultiScalePatchDiscriminator", &self.mistakes());
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

/// What the discriminators of all scales say.
#[derive(Clone, Debug)]
pub struct MultiScaleFeatures {
    /// The judgement of each scale, without a final activation.
    pub outputs: Vec<Tensor<5>>,
    /// The outputs of all layers before it, for each scale.
    pub features: Vec<Vec<Tensor<5>>>,
}

impl MultiScalePatchDiscriminator {
    /// Sets which segments keep their intermediate results; results and gradients do not depend on it.
    pub fn with_residency(mut self, residency: ResidencyPolicy) -> Self {
        let scales = self.discriminators.into_iter();
        self.discriminators = scales.map(|discriminator| discriminator.with_residency(residency.clone())).collect();
        self
    }

    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        self.discriminators.iter().flat_map(PatchDiscriminator::segments).collect()
    }

    /// Judges `[batch_size, in_channels, depth, height, width]` at every scale.
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels or is smaller than a kernel on the way.
    pub fn forward(&self, x: Tensor<5>) -> MultiScaleFeatures {
        let mut said = MultiScaleFeatures { outputs: Vec::new(), features: Vec::new() };
        let mut seen = x;
        for (scale, discriminator) in self.discriminators.iter().enumerate() {
            if self.average_pooling && scale > 0 {
                seen = avg_pool3d(seen, AvgPool3d::new([2; 3]));
            }
            let mut features = discriminator.forward(seen.clone());
            said.outputs.extend(features.pop());
            said.features.push(features);
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

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
            let shapes: Vec<_> = said.outputs.iter().map(|output| output.dims()).collect();
            assert_eq!(shapes, sizes.map(|size| [1, 1, size, size, size]), "{average_pooling}");
            assert_eq!(said.features.iter().map(Vec::len).collect::<Vec<_>>(), layers, "{average_pooling}");
        }
    }

    #[test]
    fn the_volume_must_outlast_the_halvings() {
        let size = |minimum, pooling| config(pooling).with_minimum_size(minimum).mistakes().len();
        assert_eq!([size(4, false), size(3, false), size(4, true), size(3, true)], [0, 1, 0, 1]);
        let scales = |num_scales, pooling| MultiScalePatchDiscriminatorConfig { num_scales, ..config(pooling) };
        assert_eq!(scales(1000, false).mistakes().len(), 2);
        assert_eq!(scales(0, true).mistakes()[0].0, "num_scales");
    }
}

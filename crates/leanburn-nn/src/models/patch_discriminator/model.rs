//! The patch discriminator itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{ResidencyPolicy, Stages, Unstreamable};

use super::config::PatchDiscriminatorConfig;
use super::layer::{PatchLayer, normal_conv};
use crate::blocks::{Conv3d, NormConfig};
use crate::segmented::segmented;

/// Discriminator of patches; see [`PatchDiscriminatorConfig`] for an example.
///
/// Equal to MONAI's `PatchDiscriminator`.
#[derive(Module, Debug)]
pub struct PatchDiscriminator {
    initial_conv: PatchLayer,
    layers: Vec<PatchLayer>,
    final_conv: Conv3d,
    #[module(skip)]
    config: PatchDiscriminatorConfig,
    #[module(skip)]
    prefix: String,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl PatchDiscriminatorConfig {
    /// Makes the model: convolutions normal with deviation 0.02 and bias zero, batch norms with scales around one.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> PatchDiscriminator {
        panic_if_invalid("PatchDiscriminator", &self.validate());
        PatchDiscriminator::new("discriminator", self, device)
    }
}

segmented!(PatchDiscriminator, PatchDiscriminatorConfig);

impl PatchDiscriminator {
    /// Makes the model; names of its segments begin with `prefix`.
    pub(super) fn new(prefix: &str, config: &PatchDiscriminatorConfig, device: &Device) -> Self {
        let kernel_size = config.kernel_size;
        let initial = normal_conv([config.in_channels, config.channels], kernel_size).with_stride(2);
        let width = |layer: usize| config.channels << layer;
        let layer = |index: usize| {
            let stride = if index + 1 == config.num_layers_d { 1 } else { 2 };
            let conv = normal_conv([width(index), width(index + 1)], kernel_size).with_stride(stride);
            PatchLayer::new(conv.with_bias(config.bias), config.norm, config, device)
        };
        let last_kernel = config.last_kernel_size();
        let last = normal_conv([width(config.num_layers_d), config.out_channels], last_kernel);
        Self {
            initial_conv: PatchLayer::new(initial, NormConfig::None, config, device),
            layers: (0..config.num_layers_d).map(layer).collect(),
            final_conv: last.with_padding((last_kernel - 1) / 2).init(device),
            config: config.clone(),
            prefix: prefix.to_string(),
            residency: ResidencyPolicy::default(),
        }
    }

    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let layers = (0..self.layers.len()).map(|index| format!("layer_{index}"));
        let names = ["initial_conv".to_string()].into_iter().chain(layers).chain(["final_conv".to_string()]);
        names.map(|name| format!("{}.{name}", self.prefix)).collect()
    }

    /// The outputs of all layers; the last are the logits.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - last output: `[batch_size, out_channels, ..]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels or is smaller than a kernel at any layer.
    pub fn forward(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        let names = self.segments();
        let mut features = Vec::with_capacity(names.len());
        let mut h = x;
        for (name, layer) in names.iter().zip([&self.initial_conv].into_iter().chain(&self.layers)) {
            h = self.residency.run_stages(name, layer, h, PatchLayer::forward, PatchLayer::stages);
            features.push(h.clone());
        }
        let last = &names[names.len() - 1];
        features.push(self.residency.run_stages(last, &self.final_conv, h, Conv3d::forward, stages_of_conv));
        features
    }

    /// What stands against streaming each segment, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        let layers = [&self.initial_conv].into_iter().chain(&self.layers).map(PatchLayer::stages);
        let stages = layers.chain([stages_of_conv(&self.final_conv)]);
        let obstacles = stages.map(|stages| stages.and_then(Stages::streamable).err());
        self.segments().into_iter().zip(obstacles).collect()
    }
}

/// A convolution in stages.
fn stages_of_conv(conv: &Conv3d) -> Result<Stages, Unstreamable> {
    let mut stages = Stages::new();
    stages.conv3d(stages.input(), conv.convolution());
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;
    use crate::blocks::Activation;

    #[test]
    fn every_norm_and_dropout_runs() {
        let device = Device::flex().autodiff();
        let norms = [NormConfig::Batch, NormConfig::Instance, NormConfig::Group(2), NormConfig::None];
        for norm in norms {
            let config = PatchDiscriminatorConfig::new(1, 2).with_num_layers_d(2).with_norm(norm).with_bias(true);
            let model = config.with_dropout(0.2).with_activation(Activation::Relu).init(&device);
            let parameters = |scales: usize| 2 * 65 + scales + (2 * 64 + 1) * 4 + (4 * 64 + 1) * 8 + 8 * 64 + 1;
            let expected = match norm {
                NormConfig::Batch => parameters(4 * (4 + 8)), // running estimates are counted by Burn
                NormConfig::Group(_) => parameters(2 * (4 + 8)),
                _ => parameters(0),
            };
            assert_eq!(model.num_params(), expected, "{norm:?}");
            let x = Tensor::random([2, 1, 16, 16, 16], Distribution::Default, &device);
            let features = model.forward(x);
            assert_eq!(features.len(), model.segments().len());
            assert!(features[3].to_data().try_to_vec::<f32>().unwrap().iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let model = PatchDiscriminatorConfig::new(1, 2).with_num_layers_d(2).init(&Device::flex());
        let expected = ["initial_conv", "layer_0", "layer_1", "final_conv"].map(|name| format!("discriminator.{name}"));
        assert_eq!(model.segments(), expected);
    }
}

//! What tells every block how noisy the sample is.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, conv3d, norm_act_conv3d};

use crate::blocks::{Linear, LinearConfig};
use crate::models::diffusion_unet3d::phases;

/// Sines and cosines of the noise level, or of the time, and two linear layers with SiLU between them.
#[derive(Module, Debug)]
pub struct Sr3Embedding {
    first: Linear,
    second: Linear,
}

impl Sr3Embedding {
    /// The layers: to four times as many features, and back.
    pub(super) fn new(features: usize, device: &Device) -> Self {
        let linear = |features_in, features_out| LinearConfig::new(features_in, features_out).init(device);
        Self { first: linear(features, 4 * features), second: linear(4 * features, features) }
    }

    /// The embedding `[batch_size, features, 1, 1, 1]` of [`waves`], whose dtype it has.
    pub(super) fn forward(&self, waves: Tensor<5>) -> Tensor<5> {
        let h = conv3d(waves, self.first.convolution());
        norm_act_conv3d(h, None, Activation::Silu, self.second.convolution(), None)
    }
}

/// Sines and cosines of noise levels or times, of half as many frequencies each: `[batch_size, features, 1, 1, 1]`, in float32.
pub(super) fn waves(levels: Tensor<1>, features: usize) -> Tensor<5> {
    let batch_size = levels.dims()[0];
    let phases = phases(levels, features / 2);
    Tensor::cat(vec![phases.clone().sin(), phases.cos()], 1).reshape([batch_size, features, 1, 1, 1])
}

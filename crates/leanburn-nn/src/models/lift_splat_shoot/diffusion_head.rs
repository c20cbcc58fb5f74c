//! A network that removes noise from maps, given what the view from above shows.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{Activation, conv3d, norm_act_conv3d};

use crate::blocks::{Conv2d, Conv2dConfig, GroupNorm, GroupNormConfig, Linear, LinearConfig, attend};

/// Channels of the network.
const CHANNELS: usize = 128;
/// Groups of its norms.
const GROUPS: usize = 8;
/// Heads of its attention.
const HEADS: usize = 4;
/// The longest period of the sines of the time.
const MAX_PERIOD: f64 = 10_000.0;

/// Predicts the noise in the logits of a map from the features that the map was made of.
///
/// Each position of the noisy map attends to all positions of the features. A lightweight decoder in the manner of
/// [DiffBEV](https://arxiv.org/abs/2303.08333), as the guide's repository has it; its training is
/// [DDPM](https://arxiv.org/abs/2006.11239)'s.
///
/// # Memory
///
/// Saved for backward: seven times `128` channels, and the input's. Scores of the attention, `positions^2` of them, are never stored: at the
/// guide's 39,200 positions they are 22.9 GiB a sample. Its time grows with their square all the same.
#[derive(Module, Debug)]
pub struct BevDiffusionHead {
    xt_encoder: BevEncoder,
    cond_proj: BevEncoder,
    fuse_attn: BevFusion,
    noise_pred: (BevEncoder, Conv2d),
}

/// A convolution with its norm; SiLU follows.
#[derive(Module, Debug)]
pub struct BevEncoder {
    conv: Conv2d,
    norm: GroupNorm,
}

/// The linear layers of an attention, those of queries, keys and values as one.
#[derive(Module, Debug)]
pub struct BevFusion {
    in_proj: Linear,
    out_proj: Linear,
}

impl BevEncoder {
    fn new(channels_in: usize, kernel_size: usize, device: &Device) -> Self {
        let conv = Conv2dConfig::new([channels_in, CHANNELS], kernel_size).with_padding(kernel_size / 2);
        Self { conv: conv.init(device), norm: GroupNormConfig::new(GROUPS, CHANNELS).init(device) }
    }
}

impl BevDiffusionHead {
    /// For maps of so many classes and features of so many channels.
    pub fn new(classes: usize, features: usize, device: &Device) -> Self {
        let linear = |factor| LinearConfig::new(CHANNELS, factor * CHANNELS).init(device);
        Self {
            xt_encoder: BevEncoder::new(classes, 3, device),
            cond_proj: BevEncoder::new(features, 1, device),
            fuse_attn: BevFusion { in_proj: linear(3), out_proj: linear(1) },
            noise_pred: (BevEncoder::new(CHANNELS, 3, device), Conv2dConfig::new([CHANNELS, classes], 1).init(device)),
        }
    }

    /// The noise.
    ///
    /// # Shapes
    ///
    /// - noisy map and output: `[batch_size, classes, 1, rows, columns]`
    /// - features: `[batch_size, features, 1, rows, columns]`
    /// - times: `[batch_size]`
    pub fn forward(&self, noisy: Tensor<5>, features: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        let projections = self.fuse_attn.in_proj.convolutions::<3>();
        let [query, key, value] = projections;
        let encoded = self.xt_encoder.conv.forward(noisy);
        let condition = self.cond_proj.conv.forward(features);
        let project = |x: &Tensor<5>, norm: &GroupNorm, convolution| {
            norm_act_conv3d(x.clone(), Some(norm.norm()), Activation::Silu, convolution, None)
        };
        let query = project(&encoded, &self.xt_encoder.norm, query);
        let [key, value] = [key, value].map(|map| project(&condition, &self.cond_proj.norm, map));
        let attended = attend([query, key, value], HEADS, None);
        let fused = conv3d(attended, self.fuse_attn.out_proj.convolution());
        let fused = fused.clone() + cast_to(waves(times), fused.dtype());
        let (encoder, out) = &self.noise_pred;
        let h = encoder.conv.forward(fused);
        norm_act_conv3d(h, Some(encoder.norm.norm()), Activation::Silu, out.convolution(), None)
    }
}

/// Sines and cosines of times, `[batch_size, channels, 1, 1, 1]`; frequencies fall from 1 to `1 / 10,000`.
fn waves(times: Tensor<1>) -> Tensor<5> {
    let half = CHANNELS / 2;
    let frequency = |index: usize| (-MAX_PERIOD.ln() * index as f64 / (half - 1) as f64).exp() as f32;
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let frequencies = Tensor::<1>::from_floats(frequencies.as_slice(), &times.device());
    let phases = times.unsqueeze_dim::<2>(1) * frequencies.unsqueeze_dim::<2>(0);
    Tensor::cat(vec![phases.clone().sin(), phases.cos()], 1).reshape([-1, CHANNELS as i64, 1, 1, 1])
}

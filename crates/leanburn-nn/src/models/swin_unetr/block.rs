//! A block of the transformer.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, conv3d, norm_act_conv3d};

use super::config::SwinUnetrConfig;
use crate::blocks::{LayerNorm, LayerNormConfig, Linear, LinearConfig, WindowAttention, WindowAttentionConfig};
use crate::segmented::apart;

/// Attention in windows and two linear layers, each behind a layer norm and added to its input.
///
/// `y = x + attention(norm1(x))`, `y + mlp(norm2(y))`. Source: [Swin Transformer](https://arxiv.org/abs/2103.14030).
///
/// # Memory
///
/// Saved for backward: eight volumes (the input, its norm, queries, keys, values and what the attention gives; the sum and its
/// norm), and one of the channels inside the linear layers.
#[derive(Module, Debug)]
pub struct SwinBlock {
    norm1: LayerNorm,
    attn: WindowAttention,
    norm2: LayerNorm,
    mlp: Mlp,
}

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct Mlp {
    linear1: Linear,
    linear2: Linear,
}

impl SwinBlock {
    /// The block of a number in a stage: those of odd numbers have shifted windows.
    pub(super) fn new(stage: usize, number: usize, config: &SwinUnetrConfig, device: &Device) -> Self {
        let channels = config.feature_size << stage;
        let inside = config.mlp_ratio * channels;
        let attention = WindowAttentionConfig::new(channels, config.num_heads[stage], config.window_size);
        Self {
            norm1: LayerNormConfig::new(channels).init(device),
            attn: attention.with_is_shifted(number % 2 == 1).init(device),
            norm2: LayerNormConfig::new(channels).init(device),
            mlp: Mlp {
                linear1: LinearConfig::new(channels, inside).init(device),
                linear2: LinearConfig::new(inside, channels).init(device),
            },
        }
    }

    /// Applies the block to `[batch_size, channels, depth, height, width]`; the output has the input's shape.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = apart(x);
        let x = self.attn.forward(self.norm1.forward(x.clone()), x);
        let h = conv3d(self.norm2.forward(x.clone()), self.mlp.linear1.convolution());
        norm_act_conv3d(h, None, Activation::Gelu, self.mlp.linear2.convolution(), Some(x))
    }

    /// The attention.
    pub(super) fn attention(&self) -> &WindowAttention {
        &self.attn
    }
}

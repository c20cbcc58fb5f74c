//! A block of a Swin transformer.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Activation, conv3d, norm_act_conv3d};

use super::{LayerNorm, LayerNormConfig, Linear, LinearConfig, WindowAttention, WindowAttentionConfig};
use crate::segmented::apart;
use crate::validation::Rules;

/// Configuration of [`SwinBlock`].
#[derive(Config, Debug)]
pub struct SwinBlockConfig {
    /// The attention.
    pub attention: WindowAttentionConfig,
    /// Channels inside of the two linear layers, as a multiple of its own.
    #[config(default = 4)]
    pub mlp_ratio: usize,
}

impl SwinBlockConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("attention", self.attention.validate());
        validation.count("mlp_ratio", self.mlp_ratio);
        validation.errors()
    }

    /// Makes the block.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> SwinBlock {
        panic_if_invalid("SwinBlock", &self.validate());
        let channels = self.attention.channels;
        let inside = self.mlp_ratio * channels;
        SwinBlock {
            norm1: LayerNormConfig::new(channels).init(device),
            attn: self.attention.init(device),
            norm2: LayerNormConfig::new(channels).init(device),
            mlp: Mlp {
                linear1: LinearConfig::new(channels, inside).init(device),
                linear2: LinearConfig::new(inside, channels).init(device),
            },
        }
    }

    /// Number of parameters of the block, without making them.
    pub fn num_parameters(&self) -> usize {
        let WindowAttentionConfig { channels, num_heads, window, .. } = self.attention;
        let rows = window.iter().map(|length| 2 * length - 1).product::<usize>();
        // norms; queries, keys, values and projection; two linear layers; biases
        4 * channels
            + 4 * channels * (channels + 1)
            + 2 * self.mlp_ratio * channels * channels
            + (self.mlp_ratio + 1) * channels
            + rows * num_heads
    }
}

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
    /// Applies the block to `[batch_size, channels, depth, height, width]`; the output has the input's shape.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = apart(x);
        let x = self.attn.forward(self.norm1.forward(x.clone()), x);
        let h = conv3d(self.norm2.forward(x.clone()), self.mlp.linear1.convolution());
        norm_act_conv3d(h, None, Activation::Gelu, self.mlp.linear2.convolution(), Some(x))
    }

    /// The attention.
    pub(crate) fn attention(&self) -> &WindowAttention {
        &self.attn
    }
}

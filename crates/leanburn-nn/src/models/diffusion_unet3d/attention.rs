//! Attention of the U-Net: over positions, or a transformer that also looks at a context.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::config::DiffusionUNet3dConfig;
use super::transformer::SpatialTransformer;
use crate::blocks::{AttentionBlock, AttentionBlockConfig};

/// What follows a residual block where there is attention.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum DiffusionAttention {
    /// Attention of positions to each other.
    Spatial(AttentionBlock),
    /// Attention to each other and to a context.
    Transformer(SpatialTransformer),
}

impl DiffusionAttention {
    /// The attention at a level of a valid configuration.
    pub(super) fn new(level: usize, config: &DiffusionUNet3dConfig, device: &Device) -> Self {
        let channels = config.channels[level];
        let head_channels = config.head_channels(level).expect("validated");
        match config.cross_attention_dim {
            Some(features) => {
                Self::Transformer(SpatialTransformer::new(channels, channels / head_channels, features, config, device))
            }
            None => {
                let block = AttentionBlockConfig::new(channels, config.norm_num_groups)
                    .with_norm_eps(config.norm_eps)
                    .with_num_heads(channels / head_channels)
                    .with_include_fc(config.include_fc)
                    .with_use_combined_linear(config.use_combined_linear)
                    .with_block(config.attention_block);
                Self::Spatial(block.init(device))
            }
        }
    }

    /// Applies the attention to `[batch_size, channels, depth, height, width]`; the output has the input's shape. The context is
    /// `[batch_size, features, tokens, 1, 1]`.
    pub(super) fn forward(&self, x: Tensor<5>, context: Option<Tensor<5>>) -> Tensor<5> {
        match self {
            Self::Spatial(block) => block.forward(x),
            Self::Transformer(block) => block.forward(x, context),
        }
    }
}

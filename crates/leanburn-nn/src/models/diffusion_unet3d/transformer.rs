//! A transformer over the positions of a volume that also looks at a context.
//!
//! Tokens stay channels first, as the volume is: a linear layer is a convolution with a kernel of one, layer norm is over channels.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, conv3d, geglu, norm_act_conv3d};

use super::config::DiffusionUNet3dConfig;
use crate::blocks::{
    Conv3d, Conv3dConfig, GroupNorm, GroupNormConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, SelfAttention,
    attend,
};

/// Group norm, a linear map, transformer blocks, a linear map that begins as zero, plus the input.
///
/// Source: [Latent Diffusion Models](https://arxiv.org/abs/2112.10752).
#[derive(Module, Debug)]
pub struct SpatialTransformer {
    norm: GroupNorm,
    proj_in: Conv3d,
    transformer_blocks: Vec<TransformerBlock>,
    proj_out: Conv3d,
}

impl SpatialTransformer {
    /// The transformer with so many heads, for a context with so many features.
    pub(super) fn new(
        channels: usize,
        num_heads: usize,
        context_features: usize,
        config: &DiffusionUNet3dConfig,
        device: &Device,
    ) -> Self {
        let pointwise = || Conv3dConfig::new([channels; 2], 1);
        let block = |_| TransformerBlock::new(channels, num_heads, context_features, config, device);
        Self {
            norm: GroupNormConfig::new(config.norm_num_groups, channels).with_epsilon(config.norm_eps).init(device),
            proj_in: pointwise().init(device),
            transformer_blocks: (0..config.transformer_num_layers).map(block).collect(),
            proj_out: pointwise().with_initializer(Some(Initializer::Zeros)).init(device),
        }
    }

    /// Applies the transformer. Without a context, attention to it is to the volume itself.
    pub(super) fn forward(&self, x: Tensor<5>, context: Option<Tensor<5>>) -> Tensor<5> {
        let (norm, proj_in) = (self.norm.norm(), self.proj_in.convolution());
        let h = norm_act_conv3d(x.clone(), Some(norm), Activation::None, proj_in, None);
        let h = self.transformer_blocks.iter().fold(h, |h, block| block.forward(h, context.clone()));
        norm_act_conv3d(h, None, Activation::None, self.proj_out.convolution(), Some(x))
    }
}

/// Attention to itself, attention to a context, gated layers, each behind a layer norm and with its input added.
///
/// # Memory
///
/// Saved for backward, in volumes of the input's size: of each attention 6, of the gated layers 14.
#[derive(Module, Debug)]
pub struct TransformerBlock {
    attn1: SelfAttention,
    ff: GatedFeedForward,
    attn2: CrossAttention,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    num_heads: usize,
    #[module(skip)]
    attention_block: Option<usize>,
}

impl TransformerBlock {
    fn new(
        channels: usize,
        num_heads: usize,
        context_features: usize,
        config: &DiffusionUNet3dConfig,
        device: &Device,
    ) -> Self {
        let norm = || LayerNormConfig::new(channels).init(device);
        Self {
            attn1: SelfAttention::new(channels, false, config.include_fc, config.use_combined_linear, device),
            ff: GatedFeedForward::new(channels, device),
            attn2: CrossAttention::new(channels, context_features, device),
            norm1: norm(),
            norm2: norm(),
            norm3: norm(),
            num_heads,
            attention_block: config.attention_block,
        }
    }

    fn forward(&self, x: Tensor<5>, context: Option<Tensor<5>>) -> Tensor<5> {
        let attend = |projections| attend(projections, self.num_heads, self.attention_block);
        let normal = self.norm1.forward(x.clone());
        let attended = attend(self.attn1.projections().map(|layer| conv3d(normal.clone(), layer)));
        drop(normal);
        let x = self.attn1.out(attended, x);
        let attended = attend(self.attn2.projections(self.norm2.forward(x.clone()), context));
        let x = norm_act_conv3d(attended, None, Activation::None, self.attn2.out_proj.convolution(), Some(x));
        self.ff.forward(self.norm3.forward(x.clone()), x)
    }
}

/// The layers of an attention to a context.
#[derive(Module, Debug)]
pub struct CrossAttention {
    out_proj: Linear,
    to_q: Linear,
    to_k: Linear,
    to_v: Linear,
}

impl CrossAttention {
    fn new(channels: usize, context_features: usize, device: &Device) -> Self {
        let linear = |features| LinearConfig::new(features, channels).with_bias(false).init(device);
        Self {
            out_proj: LinearConfig::new(channels, channels).init(device),
            to_q: linear(channels),
            to_k: linear(context_features),
            to_v: linear(context_features),
        }
    }

    /// Queries of the volume, keys and values of the context, or of the volume if there is none.
    fn projections(&self, x: Tensor<5>, context: Option<Tensor<5>>) -> [Tensor<5>; 3] {
        let context = context.unwrap_or_else(|| x.clone());
        [(x, &self.to_q), (context.clone(), &self.to_k), (context, &self.to_v)]
            .map(|(volume, layer)| conv3d(volume, layer.convolution()))
    }
}

/// Two linear layers, GEGLU between them, with eight times the channels in front of it and four times behind it.
#[derive(Module, Debug)]
pub struct GatedFeedForward {
    linear1: Linear,
    linear2: Linear,
}

impl GatedFeedForward {
    fn new(channels: usize, device: &Device) -> Self {
        let linear =
            |[features_in, features_out]: [usize; 2]| LinearConfig::new(features_in, features_out).init(device);
        Self { linear1: linear([channels, 8 * channels]), linear2: linear([4 * channels, channels]) }
    }

    fn forward(&self, x: Tensor<5>, residual: Tensor<5>) -> Tensor<5> {
        let h = geglu(conv3d(x, self.linear1.convolution()));
        norm_act_conv3d(h, None, Activation::None, self.linear2.convolution(), Some(residual))
    }
}

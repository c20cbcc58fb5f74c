//! Self-attention over all positions of a volume.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Activation, Convolution, attention3d_in_blocks, norm_act_conv3d};

use super::group_norm::{GroupNorm, GroupNormConfig};
use super::linear::{Linear, LinearConfig};
use crate::validation::Rules;

/// Configuration of [`AttentionBlock`].
#[derive(Config, Debug)]
pub struct AttentionBlockConfig {
    /// Channels of input and output.
    pub channels: usize,
    /// Groups of the norm, a divisor of the channels.
    pub norm_num_groups: usize,
    /// Added to the variance in the norm.
    #[config(default = 1e-6)]
    pub norm_eps: f64,
    /// Heads, each of as many channels; a divisor of the channels.
    #[config(default = 1)]
    pub num_heads: usize,
    /// Whether a linear layer follows the attention.
    #[config(default = true)]
    pub include_fc: bool,
    /// Whether queries, keys and values come from one linear layer rather than from three.
    #[config(default = false)]
    pub use_combined_linear: bool,
    /// The most queries at a time; see [`attention3d_in_blocks`]. As many as are fastest if none.
    pub block: Option<usize>,
}

impl AttentionBlockConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("channels", self.channels);
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &[self.channels]);
        validation.positive("norm_eps", self.norm_eps, "use 1e-6");
        validation.at_least_one("num_heads", self.num_heads);
        validation.check_together(
            self.num_heads == 0 || self.channels.is_multiple_of(self.num_heads),
            &["channels"],
            "num_heads",
            "a divisor of the channels",
            format!("{} heads for {} channels", self.num_heads, self.channels),
            "take another number of heads",
        );
        validation.at_least_one("block", self.block.unwrap_or(1));
        validation.errors()
    }

    /// Makes the block.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> AttentionBlock {
        panic_if_invalid("AttentionBlock", &self.validate());
        AttentionBlock {
            norm: GroupNormConfig::new(self.norm_num_groups, self.channels).with_epsilon(self.norm_eps).init(device),
            attn: SelfAttention::new(self.channels, true, self.include_fc, self.use_combined_linear, device),
            num_heads: self.num_heads,
            block: self.block,
        }
    }
}

/// Group norm, self-attention over all positions of the volume, plus the input.
///
/// `x + out(softmax(q k^T / sqrt(channels of a head)) v)`, head by head. Source: [Attention Is All You Need](https://arxiv.org/abs/1706.03762).
///
/// # Memory
///
/// Saved for backward: the input, queries, keys, values and what the attention gives, five volumes; see
/// [`attention3d`](leanburn_ops::attention3d). The scores, `positions^2` of them, are never stored.
///
/// # Numerics
///
/// Norm and softmax in float32 regardless of the dtype.
#[derive(Module, Debug)]
pub struct AttentionBlock {
    norm: GroupNorm,
    attn: SelfAttention,
    num_heads: usize,
    #[module(skip)]
    block: Option<usize>,
}

impl AttentionBlock {
    /// Applies the block to `[batch_size, channels, depth, height, width]`; the output has the input's shape.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let project =
            |convolution| norm_act_conv3d(x.clone(), Some(self.norm.norm()), Activation::None, convolution, None);
        let projections = self.attn.projections().map(project);
        self.attn.out(attend(projections, self.num_heads, self.block), x)
    }
}

/// Scaled dot-product attention of queries, keys and values, with so many heads and at most so many queries at a time.
pub(crate) fn attend([query, key, value]: [Tensor<5>; 3], num_heads: usize, block: Option<usize>) -> Tensor<5> {
    let scale = ((query.dims()[1] / num_heads) as f64).powf(-0.5);
    attention3d_in_blocks(query, key, value, num_heads, scale, block)
}

/// The layers of an attention: each a linear map of every position.
#[derive(Module, Debug)]
pub struct SelfAttention {
    qkv: Option<Linear>,
    to_q: Option<Linear>,
    to_k: Option<Linear>,
    to_v: Option<Linear>,
    out_proj: Option<Linear>,
}

impl SelfAttention {
    /// The layers for so many channels: with biases of queries, keys and values or without, with a last layer or without, and one layer for
    /// all three projections or three.
    pub(crate) fn new(
        channels: usize,
        qkv_bias: bool,
        include_fc: bool,
        use_combined_linear: bool,
        device: &Device,
    ) -> Self {
        let linear = |factor| LinearConfig::new(channels, factor * channels).with_bias(qkv_bias).init(device);
        let separate = || (!use_combined_linear).then(|| linear(1));
        Self {
            qkv: use_combined_linear.then(|| linear(3)),
            to_q: separate(),
            to_k: separate(),
            to_v: separate(),
            out_proj: include_fc.then(|| LinearConfig::new(channels, channels).init(device)),
        }
    }

    /// The attended volume through the last layer, plus the residual.
    pub(crate) fn out(&self, attended: Tensor<5>, residual: Tensor<5>) -> Tensor<5> {
        match &self.out_proj {
            Some(layer) => norm_act_conv3d(attended, None, Activation::None, layer.convolution(), Some(residual)),
            None => attended + residual,
        }
    }

    /// The maps to queries, keys and values.
    pub(crate) fn projections(&self) -> [Convolution; 3] {
        if let Some(qkv) = &self.qkv {
            return qkv.convolutions();
        }
        [&self.to_q, &self.to_k, &self.to_v].map(|layer| {
            let layer = layer.as_ref().expect("without a combined layer there are three");
            layer.convolution()
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance};

    use super::*;

    /// The combined layer is the three separate ones on top of each other.
    #[test]
    fn combined_and_separate_projections_agree() {
        let device = Device::flex();
        let config = AttentionBlockConfig::new(4, 2);
        let separate = config.init(&device);
        let mut combined = config.with_use_combined_linear(true).init(&device);
        let layers =
            [&separate.attn.to_q, &separate.attn.to_k, &separate.attn.to_v].map(|layer| layer.clone().unwrap());
        combined.attn.qkv = Some(super::super::linear::stack(&layers));
        combined.attn.out_proj = separate.attn.out_proj.clone();
        let x = Tensor::random([2, 4, 2, 3, 2], Distribution::Default, &device);
        let expected = separate.forward(x.clone()).into_data();
        combined.forward(x).into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
    }

    #[test]
    fn without_the_last_layer_there_are_fewer_parameters() {
        let device = Device::flex();
        let count = |include_fc| AttentionBlockConfig::new(4, 2).with_include_fc(include_fc).init(&device).num_params();
        assert_eq!(count(true), 8 + 4 * 20);
        assert_eq!(count(false), 8 + 3 * 20);
    }
}

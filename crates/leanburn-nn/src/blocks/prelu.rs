//! Leaky ReLU with a learned slope.

use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Convolution, Norm, norm_prelu, norm_prelu_conv3d};

/// `x` where positive, `weight x` elsewhere; one weight for all channels, 0.25 at first.
///
/// Source: [Delving Deep into Rectifiers](https://arxiv.org/abs/1502.01852).
///
/// # Memory
///
/// Saved for backward: the input.
#[derive(Module, Debug)]
pub struct Prelu {
    weight: Param<Tensor<1>>,
}

impl Prelu {
    /// Makes the layer.
    pub fn new(device: &Device) -> Self {
        Self { weight: Initializer::Constant { value: 0.25 }.init([1], device) }
    }

    /// The slope, `[1]`.
    pub(crate) fn slope(&self) -> Tensor<1> {
        self.weight.val()
    }

    /// `prelu(norm(x))`.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, channels, depth, height, width]`
    pub fn forward(&self, x: Tensor<5>, norm: Option<Norm>) -> Tensor<5> {
        norm_prelu(x, norm, self.slope())
    }

    /// `conv3d(prelu(norm(x))) + residual`.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - residual and output: `[batch_size, channels_out, ..]` as of [`conv3d`](leanburn_ops::conv3d)
    pub fn then_conv3d(
        &self,
        x: Tensor<5>,
        norm: Option<Norm>,
        convolution: Convolution,
        residual: Option<Tensor<5>>,
    ) -> Tensor<5> {
        norm_prelu_conv3d(x, norm, self.slope(), convolution, residual)
    }
}

//! Transposed 3D convolution in the dtype of its input.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::conv;
use burn::tensor::{Device, Tensor, ops::ConvTransposeOptions};
use leanburn_ops::conv_transpose3d;

/// Configuration of [`ConvTranspose3d`].
#[derive(Config, Debug)]
pub struct ConvTranspose3dConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the cubic kernel.
    pub kernel_size: usize,
    /// Stride along each axis: the factor by which the volume grows.
    pub stride: usize,
}

impl ConvTranspose3dConfig {
    /// Makes the layer, without padding and with a bias.
    pub fn init(&self, device: &Device) -> ConvTranspose3d {
        let conv = conv::ConvTranspose3dConfig::new(self.channels, [self.kernel_size; 3])
            .with_stride([self.stride; 3])
            .init(device);
        let bias = conv.bias.expect("a transposed convolution has a bias unless told otherwise");
        ConvTranspose3d { weight: conv.weight, bias, stride: conv.stride }
    }
}

/// Transposed 3D convolution.
///
/// # Memory
///
/// Held for backward: the input.
#[derive(Module, Debug)]
pub struct ConvTranspose3d {
    weight: Param<Tensor<5>>,
    bias: Param<Tensor<1>>,
    stride: [usize; 3],
}

impl ConvTranspose3d {
    /// Applies the transposed convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis `(size - 1) stride + kernel_size`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let options = ConvTransposeOptions::new(self.stride, [0; 3], [0; 3], [1; 3], 1);
        conv_transpose3d(x, self.weight.val(), Some(self.bias.val()), options)
    }
}

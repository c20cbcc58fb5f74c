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
    /// Voxels left out at both ends of each axis.
    #[config(default = 0)]
    pub padding: usize,
    /// Voxels added at the far end of each axis, fewer than `stride`.
    #[config(default = 0)]
    pub padding_out: usize,
    /// Steps between the elements of the kernel.
    #[config(default = 1)]
    pub dilation: usize,
}

impl ConvTranspose3dConfig {
    /// Makes the layer, with a bias.
    pub fn init(&self, device: &Device) -> ConvTranspose3d {
        let conv = conv::ConvTranspose3dConfig::new(self.channels, [self.kernel_size; 3])
            .with_stride([self.stride; 3])
            .with_padding([self.padding; 3])
            .with_padding_out([self.padding_out; 3])
            .with_dilation([self.dilation; 3])
            .init(device);
        let bias = conv.bias.expect("a transposed convolution has a bias unless told otherwise");
        let options = [self.stride, self.padding, self.padding_out, self.dilation];
        ConvTranspose3d { weight: conv.weight, bias, options }
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
    /// Stride, padding, padding out, dilation of each axis.
    options: [usize; 4],
}

impl ConvTranspose3d {
    /// Applies the transposed convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis
    ///   `(size - 1) stride + dilation (kernel_size - 1) + 1 + padding_out - 2 padding`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [stride, padding, padding_out, dilation] = self.options.map(|option| [option; 3]);
        let options = ConvTransposeOptions::new(stride, padding, padding_out, dilation, 1);
        conv_transpose3d(x, self.weight.val(), Some(self.bias.val()), options)
    }
}

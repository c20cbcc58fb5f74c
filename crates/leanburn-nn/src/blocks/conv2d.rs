//! 2D convolution of the planes of a volume.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, ops::ConvOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Convolution, conv3d};

use super::initial;
use crate::validation::Rules;

/// Configuration of [`Conv2d`].
#[derive(Config, Debug)]
pub struct Conv2dConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the square kernel.
    pub kernel_size: usize,
    /// Stride along height and width.
    #[config(default = 1)]
    pub stride: usize,
    /// Zeros added at both ends of height and width.
    #[config(default = 0)]
    pub padding: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl Conv2dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let [channels_in, channels_out] = self.channels;
        validation.counts([
            ("channels", channels_in),
            ("channels", channels_out),
            ("kernel_size", self.kernel_size),
            ("stride", self.stride),
        ]);
        validation.errors()
    }

    /// Makes the layer, weight and bias uniform in `±1/sqrt(fan_in)` as PyTorch has them.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Conv2d {
        panic_if_invalid("Conv2d", &self.validate());
        let [channels_in, channels_out] = self.channels;
        let dims = [channels_out, channels_in, self.kernel_size, self.kernel_size];
        let fan_in = dims[1..].iter().product();
        Conv2d {
            weight: initial::uniform(fan_in, dims, device),
            bias: self.bias.then(|| initial::uniform(fan_in, [channels_out], device)),
            stride: self.stride,
            padding: self.padding,
        }
    }
}

/// 2D convolution, applied to each plane of the depth: a 3D convolution whose kernel has a depth of one.
///
/// Images are volumes of depth one. Memory and numerics as [`conv3d`].
#[derive(Module, Debug)]
pub struct Conv2d {
    weight: Param<Tensor<4>>,
    bias: Option<Param<Tensor<1>>>,
    stride: usize,
    padding: usize,
}

impl Conv2d {
    /// Applies the convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, depth, ..]`, height and width
    ///   `(size + 2 padding - kernel_size) / stride + 1`, rounded down
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `channels_in` channels.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        conv3d(x, self.convolution())
    }

    /// Puts other parameters in the places of the layer's.
    pub(crate) fn set(&mut self, weight: Param<Tensor<4>>, bias: Option<Param<Tensor<1>>>) {
        (self.weight, self.bias) = (weight, bias);
    }

    /// The convolution for an operation that it is folded into.
    pub fn convolution(&self) -> Convolution {
        let [channels_out, channels_in, height, width] = self.weight.dims();
        Convolution {
            weight: self.weight.val().reshape([channels_out, channels_in, 1, height, width]),
            bias: self.bias.as_ref().map(|bias| bias.val()),
            options: ConvOptions::new([1, self.stride, self.stride], [0, self.padding, self.padding], [1; 3], 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance, module};

    use super::*;

    #[test]
    fn each_plane_is_convolved_as_an_image() {
        let device = Device::flex();
        let conv = Conv2dConfig::new([2, 3], 3).with_stride(2).with_padding(1).init(&device);
        let x = Tensor::<5>::random([2, 2, 3, 7, 6], Distribution::Default, &device);
        let y = conv.forward(x.clone());
        assert_eq!(y.dims(), [2, 3, 3, 4, 3]);
        for plane in 0..3 {
            let image: Tensor<4> = x.clone().narrow(2, plane, 1).reshape([2, 2, 7, 6]);
            let bias = conv.bias.as_ref().map(|bias| bias.val());
            let options = ConvOptions::new([2; 2], [1; 2], [1; 2], 1);
            let expected = module::conv2d(image, conv.weight.val(), bias, options).into_data();
            let found: Tensor<4> = y.clone().narrow(2, plane, 1).reshape([2, 3, 4, 3]);
            found.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
        }
    }
}

//! Transposed 2D convolution of the planes of a volume.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, ops::ConvTransposeOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::conv_transpose3d;

use super::initial;
use crate::validation::Rules;

/// Configuration of [`ConvTranspose2d`].
#[derive(Config, Debug)]
pub struct ConvTranspose2dConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the square kernel.
    pub kernel_size: usize,
    /// Stride along height and width: the factor by which a plane grows.
    pub stride: usize,
    /// Pixels left out at both ends of height and width.
    #[config(default = 0)]
    pub padding: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl ConvTranspose2dConfig {
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

    /// Makes the layer, weight and bias uniform as PyTorch has them.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> ConvTranspose2d {
        panic_if_invalid("ConvTranspose2d", &self.validate());
        let ([channels_in, channels_out], size) = (self.channels, self.kernel_size);
        // as PyTorch counts it
        let fan_in = channels_out * size.pow(2);
        ConvTranspose2d {
            weight: initial::uniform(fan_in, [channels_in, channels_out, size, size], device),
            bias: self.bias.then(|| initial::uniform(fan_in, [channels_out], device)),
            stride: self.stride,
            padding: self.padding,
        }
    }
}

/// Transposed 2D convolution, applied to each plane of the depth: one of volumes whose kernel has a depth of one.
///
/// Memory and numerics as [`conv_transpose3d`].
#[derive(Module, Debug)]
pub struct ConvTranspose2d {
    weight: Param<Tensor<4>>,
    bias: Option<Param<Tensor<1>>>,
    stride: usize,
    padding: usize,
}

impl ConvTranspose2d {
    /// Applies the transposed convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, depth, ..]`, height and width `(size - 1) stride + kernel_size - 2 padding`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [channels_in, channels_out, height, width] = self.weight.dims();
        let weight = self.weight.val().reshape([channels_in, channels_out, 1, height, width]);
        let (stride, padding) = ([1, self.stride, self.stride], [0, self.padding, self.padding]);
        let options = ConvTransposeOptions::new(stride, padding, [0; 3], [1; 3], 1);
        conv_transpose3d(x, weight, self.bias.as_ref().map(|bias| bias.val()), options)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance, module};

    use super::*;

    #[test]
    fn each_plane_is_convolved_as_an_image() {
        let device = Device::flex();
        let conv = ConvTranspose2dConfig::new([2, 3], 4, 2).with_padding(1).init(&device);
        let x = Tensor::<5>::random([2, 2, 2, 5, 4], Distribution::Default, &device);
        let y = conv.forward(x.clone());
        assert_eq!(y.dims(), [2, 3, 2, 10, 8]);
        for plane in 0..2 {
            let image: Tensor<4> = x.clone().narrow(2, plane, 1).reshape([2, 2, 5, 4]);
            let bias = conv.bias.as_ref().map(|bias| bias.val());
            let options = ConvTransposeOptions::new([2; 2], [1; 2], [0; 2], [1; 2], 1);
            let expected = module::conv_transpose2d(image, conv.weight.val(), bias, options).into_data();
            let found: Tensor<4> = y.clone().narrow(2, plane, 1).reshape([2, 3, 10, 8]);
            found.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
        }
    }
}

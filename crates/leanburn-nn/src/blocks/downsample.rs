//! Halving of a volume by a strided convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::conv3d;

use super::{Conv3d, Conv3dConfig};

/// Halves each axis: one zero at the far end of each axis, then a 3x3x3 convolution of stride two.
///
/// # Memory
///
/// Held for backward: the input.
#[derive(Module, Debug)]
pub struct Downsample {
    conv: Conv3d,
}

impl Downsample {
    /// Makes the layer for a number of channels.
    pub fn new(channels: usize, device: &Device) -> Self {
        Self { conv: Conv3dConfig::new([channels; 2], 3).with_stride(2).init(device) }
    }

    /// Applies the convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`, each axis at least 2
    /// - output: `[batch_size, channels, depth / 2, height / 2, width / 2]`, rounded down
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let mut convolution = self.conv.convolution();
        convolution.options.padding = [(0, 1); 3];
        conv3d(x, convolution)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, module::conv3d, ops::ConvOptions};

    use super::*;

    #[test]
    fn equals_a_convolution_of_the_padded_volume() {
        let device = Device::flex();
        let layer = Downsample::new(3, &device);
        let (weight, bias) = super::super::conv::parameters(&layer.conv);
        for [depth, height, width] in [[4, 6, 8], [5, 7, 2]] {
            let x = Tensor::<5>::random([2, 3, depth, height, width], Distribution::Default, &device);
            let padded = Tensor::zeros([2, 3, depth + 1, height + 1, width + 1], &device)
                .slice_assign([0..2, 0..3, 0..depth, 0..height, 0..width], x.clone());
            let options = ConvOptions::new([2; 3], [0; 3], [1; 3], 1);
            let expected = conv3d(padded, weight.clone(), bias.clone(), options);
            let difference = (layer.forward(x) - expected).abs().max().into_scalar::<f32>();
            assert!(difference < 1e-6, "{difference}");
        }
    }
}

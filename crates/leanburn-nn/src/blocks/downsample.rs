//! Reduction of a volume by a strided convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Convolution, Stages, Unstreamable, Volume, conv3d};

use super::conv::{Conv3d, Conv3dConfig};
use super::in_stages::InStages;

/// A strided 3x3x3 convolution: halves each axis, or only some.
///
/// # Memory
///
/// Saved for backward: the input.
#[derive(Module, Debug)]
pub struct Downsample {
    conv: Conv3d,
    strides: [usize; 3],
    /// Zeros in front of each axis; there is one behind it.
    zeros_before: usize,
}

impl Downsample {
    /// Halves each axis, with one zero at the far end of each: MONAI's.
    pub fn new(channels: usize, device: &Device) -> Self {
        Self { conv: Conv3dConfig::new([channels; 2], 3).init(device), strides: [2; 3], zeros_before: 0 }
    }

    /// Divides each axis by its own stride, with one zero at both ends of each, from `channels[0]` to `channels[1]`.
    pub fn strided(channels: [usize; 2], strides: [usize; 3], device: &Device) -> Self {
        Self { conv: Conv3dConfig::new(channels, 3).init(device), strides, zeros_before: 1 }
    }

    /// Applies the convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`, each axis at least 2
    /// - output: `[batch_size, channels, ..]`, each axis `size / 2` rounded down, or of [`strided`](Self::strided)
    ///   `size / stride` rounded up
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        conv3d(x, self.convolution())
    }

    fn convolution(&self) -> Convolution {
        let mut convolution = self.conv.convolution();
        convolution.options.stride = self.strides;
        convolution.options.padding = [(self.zeros_before, 1); 3];
        convolution
    }
}

impl InStages for Downsample {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        Ok(stages.conv3d(x, self.convolution()))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, module::conv3d, ops::ConvOptions};

    use super::*;

    #[test]
    fn each_axis_has_its_own_stride() {
        let device = Device::flex();
        let layer = Downsample::strided([2, 3], [1, 2, 2], &device);
        let y = layer.forward(Tensor::random([1, 2, 4, 6, 7], Distribution::Default, &device));
        assert_eq!(y.dims(), [1, 3, 4, 3, 4]);
    }

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

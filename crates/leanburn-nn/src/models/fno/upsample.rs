//! The layer in front of the others from a coarse grid to a fine one.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, ops::ConvTransposeOptions};
use leanburn_ops::{Activation, SpectralWeights, conv_transpose3d, spectral_conv};

use super::config::{FnoConfig, FnoUpsampling};
use super::spectral::FnoWeights;
use crate::blocks::uniform;

/// A spectral convolution from a coarse grid to a fine one, plus transposed convolutions that double it as often as needed.
///
/// # Memory
///
/// Saved for backward: the input, its kept coefficients, and what each transposed convolution but the last gives.
#[derive(Module, Debug)]
pub struct FnoUpsample {
    spectral: FnoWeights,
    doublings: Vec<FnoDoubling>,
    factors: [usize; 3],
    #[module(skip)]
    frequencies: [Vec<i32>; 3],
}

/// A transposed convolution with a kernel of 3 that doubles each axis that the model has.
#[derive(Module, Debug)]
pub struct FnoDoubling {
    /// `[width, width, kernel..]`.
    weight: Param<Tensor<5>>,
    bias: Param<Tensor<1>>,
}

impl FnoUpsample {
    pub(super) fn new(config: &FnoConfig, upsampling: &FnoUpsampling, device: &Device) -> Self {
        let FnoUpsampling { factor, modes } = upsampling;
        let (width, frequencies) = (config.widths[0], config.frequencies_of(modes));
        let factors = std::array::from_fn(|axis| if axis + config.axes() >= 3 { *factor } else { 1 });
        let kernel = std::array::from_fn(|axis| if axis + config.axes() >= 3 { 3 } else { 1 });
        Self {
            spectral: FnoWeights::new(config, [width; 2], frequencies.each_ref().map(Vec::len), device),
            doublings: (0..factor.ilog2()).map(|_| FnoDoubling::new(width, kernel, device)).collect(),
            factors,
            frequencies,
        }
    }

    /// What the next activation is applied to.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, width, depth, height, width of the grid]`
    /// - output: the same with each axis that the model has times the factor
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, input @ ..] = x.dims();
        let size: [usize; 3] = std::array::from_fn(|axis| input[axis] * self.factors[axis]);
        // Their transforms divide by the positions of the fine grid alone.
        let share = 1.0 / self.factors.iter().product::<usize>() as f64;
        let values = self.spectral.dense() * share;
        let weights = SpectralWeights { values, frequencies: self.frequencies.clone(), size };
        let smooth = spectral_conv(x.clone(), Activation::None, weights, None);
        smooth + self.doublings.iter().fold(x, |x, doubling| doubling.forward(x))
    }
}

impl FnoDoubling {
    fn new(width: usize, kernel: [usize; 3], device: &Device) -> Self {
        let [depth, height, across] = kernel;
        let fan = width * depth * height * across;
        Self {
            weight: uniform(fan, [width, width, depth, height, across], device),
            bias: uniform(fan, [width], device),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let weight = self.weight.val();
        let [_, _, kernel @ ..] = weight.dims();
        let (stride, one) = (kernel.map(|length| length / 2 + 1), kernel.map(|length| length / 2));
        let options = ConvTransposeOptions::new(stride, one, one, [1; 3], 1);
        conv_transpose3d(x, weight, Some(self.bias.val()), options)
    }
}

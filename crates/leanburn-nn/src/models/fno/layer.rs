//! A layer of the operator.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use leanburn_ops::random::Distribution;
use leanburn_ops::{Activation, Pointwise, SpectralWeights, spectral_conv};

use super::config::FnoConfig;
use crate::blocks::{BatchNorm, BatchNormConfig, Conv3d, Conv3dConfig, drawn};

/// Activation, spectral convolution and the pointwise convolution beside it, and a batch norm behind them if there is one.
///
/// # Memory
///
/// Saved for backward: the input and its kept coefficients, see [`spectral_conv`]; with a batch norm another volume.
#[derive(Module, Debug)]
pub struct FnoLayer {
    /// `[2, width, width, ..]`, frequencies as [`FnoConfig::modes`] has them.
    spectral: Param<Tensor<6>>,
    pointwise: Conv3d,
    norm: Option<BatchNorm>,
    #[module(skip)]
    frequencies: [Vec<i32>; 3],
}

impl FnoLayer {
    pub(super) fn new(config: &FnoConfig, device: &Device) -> Self {
        let (width, frequencies) = (config.width, config.frequencies());
        let [depth, height, across] = frequencies.each_ref().map(Vec::len);
        let high = 1.0 / (width * width) as f64;
        let distribution = Distribution::Uniform { low: 0.0, high };
        Self {
            spectral: drawn(distribution, [2, width, width, depth, height, across], device),
            pointwise: Conv3dConfig::new([width; 2], 1).init(device),
            norm: config.batch_norm.then(|| BatchNormConfig::new(width).init(device)),
            frequencies,
        }
    }

    /// The next pre-activation.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, width, depth, height, width of the grid]`
    pub fn forward(&self, x: Tensor<5>, activation: Activation) -> Tensor<5> {
        let [_, _, size @ ..] = x.dims();
        let weights = SpectralWeights { values: self.spectral.val(), frequencies: self.frequencies.clone(), size };
        let convolution = self.pointwise.convolution();
        let pointwise = Pointwise { weight: convolution.weight, bias: convolution.bias };
        let y = spectral_conv(x, activation, weights, Some(pointwise));
        match &self.norm {
            Some(norm) => norm.forward(y),
            None => y,
        }
    }
}

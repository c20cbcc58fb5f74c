//! A layer of the operator.

use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor, ops::ConvOptions};
use leanburn_ops::{Activation, Convolution, Pointwise, SpectralWeights, norm_act_conv3d, spectral_conv};

use super::config::{FnoBlock, FnoConfig};
use super::spectral::FnoWeights;
use crate::blocks::{BatchNorm, BatchNormConfig, Conv3d, Conv3dConfig};

/// Activation, spectral convolution and a pointwise convolution beside it; behind them what [`FnoBlock`] says.
///
/// # Memory
///
/// Saved for backward: the input and its kept coefficients, see [`spectral_conv`]; with a batch norm another volume, with a network one
/// and what its first convolution gives.
#[derive(Module, Debug)]
pub struct FnoLayer {
    spectral: FnoWeights,
    pointwise: Conv3d,
    norm: Option<BatchNorm>,
    mlp: Option<FnoLayerMlp>,
    #[module(skip)]
    frequencies: [Vec<i32>; 3],
}

/// The network behind the convolutions of a layer, and the layer's input beside it.
#[derive(Module, Debug)]
pub struct FnoLayerMlp {
    inner: Conv3d,
    outer: Conv3d,
    /// A weight for each channel of the layer's input, `[width, 1, 1, 1, 1]`.
    gate: Param<Tensor<5>>,
}

impl FnoLayer {
    pub(super) fn new(config: &FnoConfig, layer: usize, device: &Device) -> Self {
        let (channels, frequencies) =
            ([config.widths[layer], config.widths[layer + 1]], config.frequencies_of(&config.modes[layer]));
        let kept = frequencies.each_ref().map(Vec::len);
        let width = channels[1];
        let has_norm = config.block == FnoBlock::BatchNorm;
        let inside = config.mlp_channels(width);
        let mlp = || FnoLayerMlp {
            inner: Conv3dConfig::new([width, inside], 1).init(device),
            outer: Conv3dConfig::new([inside, width], 1).init(device),
            gate: Initializer::Ones.init([width, 1, 1, 1, 1], device),
        };
        Self {
            spectral: FnoWeights::new(config, channels, kept, device),
            pointwise: Conv3dConfig::new(channels, 1).init(device),
            norm: has_norm.then(|| BatchNormConfig::new(width).init(device)),
            mlp: (inside > 0).then(mlp),
            frequencies,
        }
    }

    /// What the next activation is applied to.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, depth, height, width]`
    ///
    /// `entry` is the activation of the input, `inner` the one in front of the layer's network if it has one.
    pub fn forward(&self, x: Tensor<5>, entry: Activation, inner: Activation) -> Tensor<5> {
        let y = self.convolve(x.clone(), entry, self.spectral.dense(), self.pointwise());
        match &self.mlp {
            Some(mlp) => mlp.forward(x, entry, y, inner),
            None => y,
        }
    }

    /// The layer behind a linear map, which is composed with its weights: the map's result is not made. A channel of ones is the last of
    /// the input, for the map's bias.
    ///
    /// # Panics
    ///
    /// Panics if the layer has a network, which needs that result.
    pub(super) fn forward_behind(&self, x: Tensor<5>, map: &Conv3d) -> Tensor<5> {
        assert!(self.mlp.is_none(), "FnoLayer: the network needs the input of the layer");
        let Convolution { weight, bias, .. } = map.convolution();
        let [width, channels, ..] = weight.dims();
        let bias = bias.expect("a linear map of the operator has a bias").reshape([width, 1]);
        let map: Tensor<2> = Tensor::cat(vec![weight.reshape([width, channels]), bias], 1);
        let spectral = self.spectral.dense();
        let [_, _, out, kept @ ..] = spectral.dims();
        let [depth, height, across] = kept;
        let rows: Tensor<2> = spectral.reshape([2 * width, out * depth * height * across]);
        // Real rows and imaginary ones alike.
        let (columns, zeros) = (map.clone().transpose(), Tensor::zeros([channels + 1, width], &map.device()));
        let real = Tensor::cat(vec![columns.clone(), zeros.clone()], 1);
        let both = Tensor::cat(vec![real, Tensor::cat(vec![zeros, columns], 1)], 0);
        let spectral = both.matmul(rows).reshape([2, channels + 1, out, depth, height, across]);
        let Pointwise { weight, bias } = self.pointwise();
        let weight = weight.reshape([out, width]).matmul(map).reshape([out, channels + 1, 1, 1, 1]);
        self.convolve(x, Activation::None, spectral, Pointwise { weight, bias })
    }

    fn convolve(&self, x: Tensor<5>, activation: Activation, values: Tensor<6>, pointwise: Pointwise) -> Tensor<5> {
        let [_, _, size @ ..] = x.dims();
        let weights = SpectralWeights { values, frequencies: self.frequencies.clone(), size };
        let y = spectral_conv(x, activation, weights, Some(pointwise));
        match &self.norm {
            Some(norm) => norm.forward(y),
            None => y,
        }
    }

    fn pointwise(&self) -> Pointwise {
        let Convolution { weight, bias, .. } = self.pointwise.convolution();
        Pointwise { weight, bias }
    }
}

impl FnoLayerMlp {
    /// `outer(gelu(inner(activation(y)))) + gate entry(x)`.
    fn forward(&self, x: Tensor<5>, entry: Activation, y: Tensor<5>, activation: Activation) -> Tensor<5> {
        let width = x.dims()[1];
        let options = ConvOptions::new([1; 3], [0; 3], [1; 3], width);
        let gate = Convolution { weight: self.gate.val(), bias: None, options };
        let beside = norm_act_conv3d(x, None, entry, gate, None);
        let inside = norm_act_conv3d(y, None, activation, self.inner.convolution(), None);
        norm_act_conv3d(inside, None, Activation::Gelu, self.outer.convolution(), Some(beside))
    }
}

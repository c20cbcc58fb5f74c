//! Affine map of the last axis in the dtype of its input.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

use crate::numerics::cast_to;

/// Configuration of [`Linear`].
#[derive(Config, Debug)]
pub struct LinearConfig {
    /// Features of the input.
    pub features_in: usize,
    /// Features of the output.
    pub features_out: usize,
}

impl LinearConfig {
    /// Makes the layer, weight and bias uniform in `±1/sqrt(features_in)` as PyTorch has them.
    pub fn init(&self, device: &Device) -> Linear {
        let bound = 1.0 / (self.features_in as f64).sqrt();
        let initializer = Initializer::Uniform { min: -bound, max: bound };
        Linear {
            weight: initializer.init([self.features_out, self.features_in], device),
            bias: initializer.init([self.features_out], device),
        }
    }
}

/// `y = x W^T + b`, with `W` of shape `[features_out, features_in]` as PyTorch stores it.
#[derive(Module, Debug)]
pub struct Linear {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Linear {
    /// Applies the map.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, positions, features_in]`
    /// - output: `[batch_size, positions, features_out]`
    ///
    /// # Memory
    ///
    /// Held for backward: the input.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let weight = cast_to(self.weight.val(), dtype).transpose().unsqueeze::<3>();
        x.matmul(weight) + cast_to(self.bias.val(), dtype).unsqueeze::<3>()
    }
}

/// One layer with the outputs of several, for tests of other blocks.
#[cfg(test)]
pub(super) fn stack(layers: &[Linear]) -> Linear {
    let weights = layers.iter().map(|layer| layer.weight.val()).collect();
    let biases = layers.iter().map(|layer| layer.bias.val()).collect();
    Linear { weight: Param::from_tensor(Tensor::cat(weights, 0)), bias: Param::from_tensor(Tensor::cat(biases, 0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_laid_out_as_in_pytorch() {
        let device = Device::flex();
        let layer = Linear {
            weight: Param::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device),
            bias: Param::from_data([0.5, 0.0, -0.5], &device),
        };
        let y = layer.forward(Tensor::from_floats([[[1.0, 10.0]]], &device));
        assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [21.5, 43.0, 64.5]);
    }
}

//! Affine map of the last axis in the dtype of its input.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn;
use burn::tensor::{Device, Tensor, module::linear, ops::ConvOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::Convolution;

use super::initial;
use crate::validation::Rules;

/// Configuration of [`Linear`].
#[derive(Config, Debug)]
pub struct LinearConfig {
    /// Features of the input.
    pub features_in: usize,
    /// Features of the output.
    pub features_out: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl LinearConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("features_in", self.features_in), ("features_out", self.features_out)]);
        validation.errors()
    }

    /// Makes the layer, weight and bias uniform in `±1/sqrt(features_in)` as PyTorch has them.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Linear {
        panic_if_invalid("Linear", &self.validate());
        Linear {
            weight: initial::uniform(self.features_in, [self.features_out, self.features_in], device),
            bias: self.bias.then(|| initial::uniform(self.features_in, [self.features_out], device)),
        }
    }
}

/// `y = x W^T + b`, or without `b`, with `W` of shape `[features_out, features_in]` as PyTorch stores it.
#[derive(Module, Debug)]
pub struct Linear {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// The map of the last axis, in the dtype of `x`.
    ///
    /// # Shapes
    ///
    /// `[.., features_in]` to `[.., features_out]`.
    ///
    /// # Panics
    ///
    /// Panics if the last axis of `x` is not `features_in`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let bias = self.bias.as_ref().map(|bias| bias.val().cast(dtype));
        linear(x, self.weight.val().cast(dtype).transpose(), bias)
    }

    /// The map at every position of a volume: a convolution with a kernel of one.
    pub fn convolution(&self) -> Convolution {
        let [convolution] = self.convolutions();
        convolution
    }

    /// The same, cut into as many maps with as many outputs each.
    pub(crate) fn convolutions<const N: usize>(&self) -> [Convolution; N] {
        let [outputs, inputs] = self.weight.dims();
        let each = outputs / N;
        let part = |part: usize| Convolution {
            weight: self.weight.val().narrow(0, part * each, each).reshape([each, inputs, 1, 1, 1]),
            bias: self.bias.as_ref().map(|bias| bias.val().narrow(0, part * each, each)),
            options: ConvOptions::new([1; 3], [0; 3], [1; 3], 1),
        };
        std::array::from_fn(part)
    }
}

/// Burn's layer, with the same weights: Burn's matrix is ours transposed.
impl From<nn::Linear> for Linear {
    fn from(nn::Linear { weight, bias }: nn::Linear) -> Self {
        Self { weight: transposed(weight), bias }
    }
}

/// The layer as Burn's, with the same weights.
impl From<Linear> for nn::Linear {
    fn from(Linear { weight, bias }: Linear) -> Self {
        Self { weight: transposed(weight), bias }
    }
}

/// The transposed weight, a leaf of autodiff where the weight is one.
fn transposed(weight: Param<Tensor<2>>) -> Param<Tensor<2>> {
    weight.map(|weight| {
        let takes_gradient = weight.is_require_grad();
        // a leaf keeps asking for its gradient when it is detached
        weight.detach().set_require_grad(false).transpose().set_require_grad(takes_gradient)
    })
}

/// One layer with the outputs of several, for tests of other blocks.
#[cfg(test)]
pub(super) fn stack(layers: &[Linear]) -> Linear {
    let weights = layers.iter().map(|layer| layer.weight.val()).collect();
    let biases = layers.iter().filter_map(|layer| layer.bias.as_ref()).map(|bias| bias.val()).collect();
    Linear {
        weight: Param::from_tensor(Tensor::cat(weights, 0)),
        bias: Some(Param::from_tensor(Tensor::cat(biases, 0))),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Int, TensorData, Tolerance};

    use super::*;

    #[test]
    fn the_last_axis_is_mapped_as_by_burns_layer_in_the_dtype_of_the_input() {
        let device = Device::flex().autodiff();
        let theirs = nn::LinearConfig::new(3, 2).init(&device);
        let ours = Linear::from(theirs.clone());
        let x = || Tensor::<1, Int>::arange(0..24, &device).float().reshape([2, 4, 3]).div_scalar(10.0).require_grad();
        let (x, same) = (x(), x());
        let (y, expected) = (ours.forward(x.clone()), theirs.forward(same.clone()));
        let data = |tensor: Tensor<3>| tensor.into_data();
        data(y.clone()).assert_approx_eq::<f32>(&data(expected.clone()), Tolerance::absolute(1e-6));
        let (gradients, of_theirs) = (y.square().sum().backward(), expected.square().sum().backward());
        let close = |one: TensorData, other: TensorData| {
            one.assert_approx_eq::<f32>(&other, Tolerance::absolute(1e-4));
        };
        close(x.grad(&gradients).unwrap().into_data(), same.grad(&of_theirs).unwrap().into_data());
        let weight = ours.weight.val().grad(&gradients).unwrap();
        close(weight.transpose().into_data(), theirs.weight.val().grad(&of_theirs).unwrap().into_data());
        let bias = |bias: &Option<Param<Tensor<1>>>| bias.as_ref().unwrap().val();
        close(
            bias(&ours.bias).grad(&gradients).unwrap().into_data(),
            bias(&theirs.bias).grad(&of_theirs).unwrap().into_data(),
        );
        assert_eq!(ours.forward(x.cast(DType::BF16)).dtype(), DType::BF16);
    }

    #[test]
    fn the_weight_is_laid_out_as_in_pytorch() {
        let device = Device::flex();
        let layer = Linear {
            weight: Param::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device),
            bias: Some(Param::from_data([0.5, 0.0, -0.5], &device)),
        };
        let x = Tensor::<1>::from_floats([1.0, 10.0], &device).reshape([1, 2, 1, 1, 1]);
        let y = leanburn_ops::conv3d(x, layer.convolution());
        assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [21.5, 43.0, 64.5]);
    }
}

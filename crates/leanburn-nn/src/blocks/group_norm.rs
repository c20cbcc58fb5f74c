//! Group normalisation with float32 statistics.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{self, Initializer};
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Norm, group_norm_act};

use super::conversion::ConversionError;
use crate::validation::Rules;

/// Configuration of [`GroupNorm`].
#[derive(Config, Debug)]
pub struct GroupNormConfig {
    /// Number of groups the channels are divided into.
    pub num_groups: usize,
    /// Number of channels, a multiple of the number of groups.
    pub num_channels: usize,
    /// Added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl GroupNormConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("num_channels", self.num_channels);
        validation.groups("num_groups", self.num_groups, "num_channels", &[self.num_channels]);
        validation.positive("epsilon", self.epsilon, "use 1e-5");
        validation.errors()
    }

    /// Makes the layer with scale one and shift zero.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> GroupNorm {
        panic_if_invalid("GroupNorm", &self.validate());
        GroupNorm {
            weight: Initializer::Ones.init([self.num_channels], device),
            bias: Initializer::Zeros.init([self.num_channels], device),
            num_groups: self.num_groups,
            epsilon: self.epsilon,
        }
    }
}

/// Normalises groups of channels of each item to mean zero and variance one, then scales and shifts each channel.
///
/// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`. Source:
/// [Group Normalization](https://arxiv.org/abs/1803.08494).
///
/// # Memory
///
/// Saved for backward: the input, and mean and deviation of each group.
///
/// # Numerics
///
/// Statistics and arithmetic in float32 regardless of the dtype of the input.
#[derive(Module, Debug)]
pub struct GroupNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    num_groups: usize,
    epsilon: f64,
}

impl GroupNorm {
    /// Applies the normalisation.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, num_channels, depth, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `num_channels` channels.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let num_channels = self.weight.shape()[0];
        assert_shape!(x, [_, num_channels, ..]);
        group_norm_act(x, self.norm(), leanburn_ops::Activation::None)
    }

    /// The norm for an operation that it is folded into.
    pub fn norm(&self) -> Norm {
        Norm {
            num_groups: self.num_groups,
            epsilon: self.epsilon,
            weight: Some(self.weight.val()),
            bias: Some(self.bias.val()),
        }
    }
}

/// Burn's layer, with the same scale and shift.
///
/// # Errors
///
/// [`ConversionError`] of a layer without scale and shift.
impl TryFrom<nn::GroupNorm> for GroupNorm {
    type Error = ConversionError;

    fn try_from(norm: nn::GroupNorm) -> Result<Self, ConversionError> {
        let nn::GroupNorm { gamma, beta, num_groups, epsilon, .. } = norm;
        match (gamma, beta) {
            (Some(weight), Some(bias)) => Ok(Self { weight, bias, num_groups, epsilon }),
            _ => Err(ConversionError {
                layer: "GroupNorm",
                key: "affine",
                expected: "a scale and a shift",
                found: "none".into(),
                help: "call `leanburn::ops::group_norm_act` with a `Norm` that has no weight and no bias",
            }),
        }
    }
}

/// The layer as Burn's, with the same scale and shift.
impl From<GroupNorm> for nn::GroupNorm {
    fn from(GroupNorm { weight, bias, num_groups, epsilon }: GroupNorm) -> Self {
        let num_channels = weight.shape()[0];
        Self { gamma: Some(weight), beta: Some(bias), num_groups, num_channels, epsilon, affine: true }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance};

    use super::*;

    #[test]
    fn equals_the_composition_of_burn() {
        let device = Device::flex();
        let x = Tensor::random([2, 6, 3, 4, 5], Distribution::Normal(3.0, 2.0), &device);
        let mut ours = GroupNormConfig::new(3, 6).init(&device);
        let mut theirs = burn::nn::GroupNormConfig::new(3, 6).init(&device);
        let weight = Initializer::Uniform { min: 0.5, max: 2.0 }.init::<1, _>([6], &device);
        let bias = Initializer::Uniform { min: -1.0, max: 1.0 }.init::<1, _>([6], &device);
        (ours.weight, ours.bias) = (weight.clone(), bias.clone());
        (theirs.gamma, theirs.beta) = (Some(weight), Some(bias));
        let expected = theirs.forward(x.clone()).into_data();
        ours.forward(x).into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }

    #[test]
    #[should_panic = "num_groups: expected groups that divide every channel count, found 4 groups for channels [6]"]
    fn groups_must_divide_the_channels() {
        GroupNormConfig::new(4, 6).init(&Device::flex());
    }
}

//! Layer norm over the channels of each position of a volume.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::layer_norm3d;

use crate::validation::Rules;

/// Configuration of [`LayerNorm`].
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// Channels of input and output.
    pub channels: usize,
    /// Added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl LayerNormConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("channels", self.channels);
        validation.positive("epsilon", self.epsilon, "use 1e-5");
        validation.errors()
    }

    /// Makes the layer, with weights of one and biases of zero.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> LayerNorm {
        panic_if_invalid("LayerNorm", &self.validate());
        let vector = |initializer: Initializer| initializer.init([self.channels], device);
        LayerNorm { weight: vector(Initializer::Ones), bias: vector(Initializer::Zeros), epsilon: self.epsilon }
    }
}

/// Normalises the channels of each position; see [`layer_norm3d`] for memory and numerics.
#[derive(Module, Debug)]
pub struct LayerNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    epsilon: f64,
}

impl LayerNorm {
    /// Applies the norm to `[batch_size, channels, depth, height, width]`; the output has the input's shape.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        layer_norm3d(x, Some(self.weight.val()), Some(self.bias.val()), self.epsilon)
    }

    /// The same with the channels of the parameters in groups, the group `order[i]` of them for the group `i` of the input.
    pub(crate) fn forward_in_order(&self, x: Tensor<5>, order: impl Fn(Tensor<1>) -> Tensor<1>) -> Tensor<5> {
        layer_norm3d(x, Some(order(self.weight.val())), Some(order(self.bias.val())), self.epsilon)
    }
}

//! Dropout of values, and of whole channels.

use burn::config::Config;
use burn::module::{Flag, Module, Param};
use burn::tensor::Tensor;
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{
    Activation, Convolution, Norm, dropout, dropout3d, group_norm_act, is_in_training, norm_act_conv3d,
};

use crate::validation::Rules;

/// Configuration of [`Dropout`] and [`Dropout3d`].
#[derive(Config, Debug)]
pub struct DropoutConfig {
    /// Probability of a value, or of a channel, to be set to 0: at least 0 and below 1.
    pub probability: f64,
}

impl DropoutConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.below_one("probability", self.probability);
        validation.errors()
    }

    /// Makes the layer that drops values.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self) -> Dropout {
        panic_if_invalid("Dropout", &self.validate());
        Dropout { probability: self.probability, training: Param::from_bool(true) }
    }

    /// Makes the layer that drops channels.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init3d(&self) -> Dropout3d {
        panic_if_invalid("Dropout3d", &self.validate());
        Dropout3d { probability: self.probability, training: Param::from_bool(true) }
    }
}

/// Sets values to 0 at random, and scales the others so that the mean stays.
///
/// On an autodiff device, or [in training](leanburn_ops::in_training), and unless frozen; elsewhere it is the identity. Source, memory and
/// random numbers are those of [`leanburn_ops::dropout`]: nothing of the input's size is saved for backward, and the seed alone decides what is dropped.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_nn::blocks::DropoutConfig;
/// use leanburn_ops::random::seed;
///
/// let device = Device::flex().autodiff();
/// let layer = DropoutConfig::new(0.2).init();
/// let draw = |number| {
///     seed(&device, number);
///     layer.forward(Tensor::<2>::ones([8, 16], &device)).into_data()
/// };
/// assert_eq!(draw(1), draw(1));
/// assert_ne!(draw(1), draw(2));
/// ```
#[derive(Module, Debug)]
pub struct Dropout {
    probability: f64,
    training: Param<Flag>,
}

impl Dropout {
    /// Drops values.
    ///
    /// # Shapes
    ///
    /// - input and output: any, no axis empty
    ///
    /// # Panics
    ///
    /// Panics if an axis is empty.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if drops(&self.training) { dropout(x, self.probability) } else { x }
    }
}

/// Whether a layer with such a flag drops. A module without autodiff has its flags off, and knows which ones training has on.
fn drops(training: &Param<Flag>) -> bool {
    training.is_enabled() || is_in_training() && training.clone().train().is_enabled()
}

/// Norm, SiLU, dropout or none, convolution, and the sum with another volume: the end of a residual block of diffusion models.
pub(crate) fn norm_silu_dropout_conv(
    x: Tensor<5>,
    norm: Norm,
    dropout: Option<&Dropout>,
    convolution: Convolution,
    skip: Tensor<5>,
) -> Tensor<5> {
    match dropout {
        None => norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, Some(skip)),
        Some(dropout) => {
            let dropped = dropout.forward(group_norm_act(x, norm, Activation::Silu));
            norm_act_conv3d(dropped, None, Activation::None, convolution, Some(skip))
        }
    }
}

/// Sets whole channels of an item to 0 at random, and scales the others so that the mean stays.
///
/// On an autodiff device, or [in training](leanburn_ops::in_training), and unless frozen; elsewhere it is the identity. Source, memory and
/// random numbers are those of [`leanburn_ops::dropout3d`].
#[derive(Module, Debug)]
pub struct Dropout3d {
    probability: f64,
    training: Param<Flag>,
}

impl Dropout3d {
    /// Drops channels.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
    ///
    /// # Panics
    ///
    /// Panics if an axis is empty.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if drops(&self.training) { dropout3d(x, self.probability) } else { x }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use burn::tensor::Device;

    use super::*;
    use crate::validation::keys;

    #[test]
    fn a_frozen_layer_and_one_in_inference_drop_nothing() {
        let config = DropoutConfig::new(0.5);
        let dropped = |device: &Device, values: &Dropout, channels: &Dropout3d| {
            let x = Tensor::<5>::ones([2, 8, 2, 2, 2], device);
            [values.forward(x.clone()), channels.forward(x)].map(|y| f64::from(y.mean().into_scalar::<f32>()) != 1.0)
        };
        let (training, inference) = (Device::flex().autodiff(), Device::flex());
        leanburn_ops::random::seed(&training, 2);
        let (values, channels) = (config.init(), config.init3d());
        assert_eq!(dropped(&training, &values, &channels), [true; 2]);
        assert_eq!(dropped(&inference, &values, &channels), [false; 2]);
        assert_eq!(dropped(&training, &values.freeze(), &channels.freeze()), [false; 2]);
    }

    #[test]
    fn the_probability_is_below_one() {
        assert!(DropoutConfig::new(0.0).validate().is_empty());
        for wrong in [-0.1, 1.0, f64::NAN] {
            assert_eq!(keys(DropoutConfig::new(wrong).validate()), ["probability"]);
        }
    }

    #[test]
    #[should_panic = "probability: expected a number of at least 0 and below 1, found 1"]
    fn init_panics_with_the_errors() {
        DropoutConfig::new(1.0).init();
    }
}

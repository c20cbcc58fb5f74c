//! Activation functions a configuration can name.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// An element-wise activation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the distribution function of the standard normal distribution.
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `x` where positive, the given slope times `x` elsewhere.
    LeakyRelu(f64),
    /// The input as it is.
    #[default]
    None,
}

impl Activation {
    /// Applies the function to `[batch_size, channels, depth, height, width]`, in float32 regardless of the dtype.
    ///
    /// # Memory
    ///
    /// Saved for backward: the input.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        leanburn_ops::activate(x, (*self).into())
    }
}

impl From<Activation> for leanburn_ops::Activation {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Silu => Self::Silu,
            Activation::Gelu => Self::Gelu,
            Activation::Relu => Self::Relu,
            Activation::LeakyRelu(slope) => Self::LeakyRelu(slope as f32),
            Activation::None => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tolerance};

    use super::*;

    #[test]
    fn values_are_those_of_the_formulas() {
        let x = Tensor::<1>::from_floats([-2.0, 0.0, 3.0], &Device::flex()).reshape([1, 1, 1, 1, 3]);
        for (activation, expected) in [
            (Activation::Silu, [-0.238_405_84, 0.0, 2.857_722_4]),
            (Activation::Gelu, [-0.045_500_264, 0.0, 2.995_950_2]),
            (Activation::Relu, [0.0, 0.0, 3.0]),
            (Activation::LeakyRelu(0.2), [-0.4, 0.0, 3.0]),
            (Activation::None, [-2.0, 0.0, 3.0]),
        ] {
            let y = activation.forward(x.clone()).reshape::<1, _>([3]).into_data();
            y.assert_approx_eq::<f32>(&expected.into(), Tolerance::relative(1e-6));
        }
    }
}

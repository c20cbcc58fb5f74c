//! Activation functions a configuration can name.

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// An element-wise activation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `x` where positive, the given slope times `x` elsewhere.
    LeakyRelu(f64),
    /// The input as it is.
    #[default]
    None,
}

impl Activation {
    /// Applies the function in the dtype of `x`.
    ///
    /// # Memory
    ///
    /// Held for backward: [`Silu`](Self::Silu) the input and its sigmoid, the others the input or the output.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match *self {
            Self::Silu => activation::silu(x),
            Self::Relu => activation::relu(x),
            Self::LeakyRelu(slope) => activation::leaky_relu(x, slope),
            Self::None => x,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tolerance};

    use super::*;

    #[test]
    fn values_are_those_of_the_formulas() {
        let x = Tensor::<1>::from_floats([-2.0, 0.0, 3.0], &Device::flex());
        for (activation, expected) in [
            (Activation::Silu, [-0.238_405_84, 0.0, 2.857_722_4]),
            (Activation::Relu, [0.0, 0.0, 3.0]),
            (Activation::LeakyRelu(0.2), [-0.4, 0.0, 3.0]),
            (Activation::None, [-2.0, 0.0, 3.0]),
        ] {
            let y = activation.forward(x.clone()).into_data();
            y.assert_approx_eq::<f32>(&expected.into(), Tolerance::relative(1e-6));
        }
    }
}

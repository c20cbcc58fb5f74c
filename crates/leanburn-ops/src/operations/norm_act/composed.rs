//! Norm and activation, and the gradient of the activation, as compositions of Burn's operations.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::tensor::{Tensor, activation};
use leanburn_kernels::Activation;

use super::normalization::Normalization;
use crate::numerics::cast_to;

/// `(x - mean) * deviation_reciprocal * weight + bias`.
pub(super) fn normalize(x: Tensor<5>, normalization: Option<&Normalization>) -> Tensor<5> {
    let Some(normalization) = normalization else { return x };
    let channels = x.dims()[1];
    let norm = &normalization.norm;
    let mut scale = normalization.per_channel(normalization.deviation_reciprocal.clone(), channels);
    if let Some(weight) = &norm.weight {
        scale = scale * cast_to(weight.clone(), x.dtype()).reshape([1, channels, 1, 1, 1]);
    }
    let y = (x - normalization.per_channel(normalization.mean.clone(), channels)) * scale;
    match &norm.bias {
        Some(bias) => {
            let bias = cast_to(bias.clone(), y.dtype());
            y + bias.reshape([1, channels, 1, 1, 1])
        }
        None => y,
    }
}

/// The activation function.
pub(super) fn activate(x: Tensor<5>, function: Activation) -> Tensor<5> {
    match function {
        Activation::None => x,
        Activation::Silu => activation::silu(x),
        Activation::Gelu => activation::gelu(x),
        Activation::Relu => activation::relu(x),
        Activation::LeakyRelu(slope) => activation::leaky_relu(x, f64::from(slope)),
    }
}

/// The gradient before the activation, from the gradient behind it.
pub(super) fn activate_gradient(x: Tensor<5>, function: Activation, gradient: Tensor<5>) -> Tensor<5> {
    match function {
        Activation::None => gradient,
        Activation::Silu => {
            let sigmoid = activation::sigmoid(x.clone());
            let rest = sigmoid.clone().neg() + 1.0;
            gradient * (sigmoid.clone() + x * sigmoid * rest)
        }
        Activation::Gelu => {
            let distribution = (x.clone() * FRAC_1_SQRT_2).erf() * 0.5 + 0.5;
            let density = (x.clone() * x.clone() * -0.5).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
            gradient * (distribution + x * density)
        }
        Activation::Relu => gradient.mask_fill(x.lower_equal_elem(0.0), 0.0),
        Activation::LeakyRelu(slope) => {
            let scaled = gradient.clone() * slope;
            gradient.mask_where(x.lower_equal_elem(0.0), scaled)
        }
    }
}

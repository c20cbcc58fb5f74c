//! Activation functions and their derivatives.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;
use leanburn_kernels::Activation;

/// An activation as kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Function {
    Identity,
    Silu,
    /// Both ReLUs: the slope is a value.
    Leaky,
}

pub(super) fn function(activation: Activation) -> (Function, f32) {
    match activation {
        Activation::None => (Function::Identity, 1.0),
        Activation::Silu => (Function::Silu, 0.0),
        Activation::Relu => (Function::Leaky, 0.0),
        Activation::LeakyRelu(slope) => (Function::Leaky, slope),
    }
}

#[cube]
pub(super) fn activate(x: f32, slope: f32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Identity => x,
        Function::Silu => x / (1.0 + f32::exp(-x)),
        Function::Leaky => select(x > 0.0, x, x * slope),
    }
}

#[cube]
pub(super) fn derivative(x: f32, slope: f32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Identity => 1.0f32.runtime(),
        Function::Silu => {
            let sigmoid = 1.0 / (1.0 + f32::exp(-x));
            sigmoid + x * sigmoid * (1.0 - sigmoid)
        }
        Function::Leaky => select(x > 0.0, 1.0, slope),
    }
}

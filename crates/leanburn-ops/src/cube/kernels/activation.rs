//! Activation functions and their derivatives.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;
use leanburn_kernels::Activation;

/// An activation as kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Function {
    Identity,
    Silu,
    Gelu,
    Relu,
    /// The slope is a value.
    Leaky,
}

pub(super) fn function(activation: Activation) -> (Function, f32) {
    match activation {
        Activation::None => (Function::Identity, 1.0),
        Activation::Silu => (Function::Silu, 0.0),
        Activation::Gelu => (Function::Gelu, 0.0),
        Activation::Relu => (Function::Relu, 0.0),
        Activation::LeakyRelu(slope) => (Function::Leaky, slope),
    }
}

#[cube]
pub(super) fn activate(x: f32, slope: f32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Identity => x,
        Function::Silu => x / (1.0 + f32::exp(-x)),
        Function::Gelu => {
            let distribution = normal_distribution(x);
            x * distribution
        }
        // infinity times a slope of zero would be no number
        Function::Relu => select(x < 0.0, 0.0, x),
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
        Function::Gelu => {
            let density = f32::exp(x * x * f32::new(-0.5)) * f32::new(0.398_942_3);
            let distribution = normal_distribution(x);
            distribution + x * density
        }
        Function::Relu => select(x <= 0.0, 0.0, 1.0),
        Function::Leaky => select(x > 0.0, 1.0, slope),
    }
}

/// The distribution function of the standard normal distribution, by the formula of the CPU's kernels.
#[cube]
fn normal_distribution(x: f32) -> f32 {
    let z = f32::abs(x) * f32::new(0.707_106_77);
    let t = 1.0 / (1.0 + z * f32::new(0.5));
    let p = t * f32::new(0.170_872_77) + f32::new(-0.822_152_23);
    let p = t * p + f32::new(1.488_515_9);
    let p = t * p + f32::new(-1.135_204);
    let p = t * p + f32::new(0.278_868_07);
    let p = t * p + f32::new(-0.186_288_06);
    let p = t * p + f32::new(0.096_784_18);
    let p = t * p + f32::new(0.374_091_96);
    let p = t * p + f32::new(1.000_023_7);
    let p = t * p + f32::new(-1.265_512_2);
    let tail = t * f32::exp(p - z * z) * f32::new(0.5);
    select(x > 0.0, 1.0 - tail, tail)
}

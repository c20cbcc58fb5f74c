//! Gated linear unit with GELU.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use burn::tensor::Tensor;

use super::check::assert_not_empty;
use super::operation::{AnyTensor, Operation, apply};
use crate::numerics::{cast_to, widen};

/// The first half of the channels, each gated by one of the second half: `values * gelu(gates)`, GELU in its exact form.
///
/// Source: [GLU Variants Improve Transformer](https://arxiv.org/abs/2002.05202).
///
/// # Shapes
///
/// - input: `[batch_size, 2 channels, depth, height, width]`, no axis empty
/// - output: `[batch_size, channels, depth, height, width]`
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer. Workspace: a few volumes of the output's size in float32.
///
/// # Numerics
///
/// In float32 regardless of the dtype; the result in the dtype of the input.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too), or the channels are an odd number.
#[must_use]
pub fn geglu(x: Tensor<5>) -> Tensor<5> {
    assert_not_empty("geglu", "input", &x);
    let channels = x.dims()[1];
    assert!(channels.is_multiple_of(2), "geglu: the input has {channels} channels, expected an even number");
    apply([x.into()], |[x], _| {
        let x = x.given::<5>();
        let [values, gates] = halves(&x);
        (cast_to(values * gates.clone() * normal_cumulative(gates), x.dtype()), Geglu { x })
    })
}

/// What [`geglu`] saves.
#[derive(Clone, Debug)]
struct Geglu {
    x: Tensor<5>,
}

impl Operation<1> for Geglu {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        let Self { x } = self;
        let dtype = x.dtype();
        let [values, gates] = halves(&x);
        drop(x);
        let gradient = widen(gradient);
        let cumulative = normal_cumulative(gates.clone());
        let of_values = cast_to(gradient.clone() * gates.clone() * cumulative.clone(), dtype);
        let density = (gates.clone() * gates.clone() * -0.5).exp() * TAU.sqrt().recip();
        let of_gates = cast_to(gradient * values * (cumulative + gates * density), dtype);
        [Tensor::cat(vec![of_values, of_gates], 1).into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

/// Values and gates, at least in float32.
fn halves(x: &Tensor<5>) -> [Tensor<5>; 2] {
    let channels = x.dims()[1] / 2;
    [0, channels].map(|first| widen(x.clone().narrow(1, first, channels)))
}

/// The cumulative distribution of the standard normal distribution.
fn normal_cumulative(x: Tensor<5>) -> Tensor<5> {
    ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5
}

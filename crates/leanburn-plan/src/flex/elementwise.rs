//! Operations that compute each element of the output from one of each input.

use burn::backend::ir::TensorIr;
use leanburn_common::Bytes;

use super::inputs::{Inputs, in_memory_of, new_output};
use crate::memory_model::{Effect, Place};

/// A function of one tensor. A permuted input gives an output that is permuted in the same way.
pub(super) fn unary(inputs: &Inputs<'_>) -> Effect {
    match inputs.writable(0) {
        true => in_memory_of(0, true),
        false => Effect { outputs: vec![(Place::New, inputs.is_contiguous(0))], ..new_output(0) },
    }
}

/// A function of a tensor and a number; the output is always contiguous.
pub(super) fn scalar(inputs: &Inputs<'_>) -> Effect {
    if inputs.writable(0) { in_memory_of(0, true) } else { new_output(0) }
}

/// A function of two tensors that broadcast: over the left one if it can be, else over the right one.
pub(super) fn binary(inputs: &Inputs<'_>, output: &TensorIr) -> Effect {
    over_first_of(&[0, 1], inputs, output)
}

/// Over the first input if it can be; the others are of another type or too small.
pub(super) fn over_first(inputs: &Inputs<'_>, output: &TensorIr) -> Effect {
    over_first_of(&[0], inputs, output)
}

/// Over the tensor if it can be, else over the values.
pub(super) fn mask_where(inputs: &Inputs<'_>, output: &TensorIr) -> Effect {
    over_first_of(&[0, 2], inputs, output)
}

fn over_first_of(candidates: &[usize], inputs: &Inputs<'_>, output: &TensorIr) -> Effect {
    match candidates.iter().find(|&&input| inputs.writable_as(input, output)) {
        Some(&input) => in_memory_of(input, true),
        None => new_output(0),
    }
}

/// Rows are read in order; along another axis than the last the tensor is turned, copied, and the result turned back.
pub(super) fn softmax(inputs: &Inputs<'_>, dim: usize) -> Effect {
    match dim + 1 == inputs.dims(0).len() {
        true => new_output(inputs.copy(0)),
        false => Effect { outputs: vec![(Place::New, false)], ..new_output(inputs.bytes(0)) },
    }
}

/// Burn's composition: the shifted tensor becomes the result, its exponentials are there for their sum only.
pub(super) fn log_softmax(inputs: &Inputs<'_>) -> Effect {
    let effect = scalar(inputs);
    Effect { workspace: effect.workspace + Bytes(inputs.bytes(0)), ..effect }
}

//! Operations that put tensors into others.

use leanburn_common::Bytes;

use super::inputs::{Inputs, in_memory_of, new_output};
use super::view;
use crate::memory_model::Effect;

/// Values written into the first input, or into a copy of it if something else holds it; `copies` are those of the other
/// inputs, `more` what is needed on top where the first input is copied.
pub(super) fn assign(inputs: &Inputs<'_>, copies: u64, more: u64) -> Effect {
    match inputs.writable(0) {
        true => Effect { workspace: Bytes(copies), ..in_memory_of(0, true) },
        false => new_output(copies + more),
    }
}

/// Contiguous parts are copied straight into the output, others first into order.
pub(super) fn cat(inputs: &Inputs<'_>) -> Effect {
    if inputs.count() == 1 { view::same(inputs) } else { new_output(inputs.copies()) }
}

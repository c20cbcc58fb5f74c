//! Operations that give a view of the same memory.

use burn::backend::ir::TensorIr;

use super::inputs::{Inputs, in_memory_of, new_output};
use crate::memory_model::Effect;

/// The input as it is.
pub(super) fn same(inputs: &Inputs<'_>) -> Effect {
    in_memory_of(0, inputs.is_contiguous(0))
}

/// A view with gaps, repeated or reversed axes.
pub(super) fn strided() -> Effect {
    in_memory_of(0, false)
}

/// A view of a part, or of more than there is; the input as it is if the shape is the same.
pub(super) fn same_or_strided(inputs: &Inputs<'_>, output: &TensorIr) -> Effect {
    in_memory_of(0, inputs.is_contiguous(0) && inputs.tensor(0).shape == output.shape)
}

/// Only contiguous values can be seen in another shape, others are copied.
pub(super) fn reshape(inputs: &Inputs<'_>) -> Effect {
    if inputs.is_contiguous(0) { in_memory_of(0, true) } else { new_output(0) }
}

pub(super) fn swap_dims(inputs: &Inputs<'_>, dim1: usize, dim2: usize) -> Effect {
    let mut axes: Vec<usize> = (0..inputs.dims(0).len()).collect();
    axes.swap(dim1, dim2);
    permute(inputs, &axes)
}

/// The values stay in order if the axes longer than one do.
pub(super) fn permute(inputs: &Inputs<'_>, axes: &[usize]) -> Effect {
    in_memory_of(0, inputs.is_contiguous(0) && keeps_order(inputs.dims(0), axes))
}

/// Whether values in row-major order still are when the axes are permuted.
pub(super) fn keeps_order(dims: &[usize], axes: &[usize]) -> bool {
    axes.iter().filter(|&&axis| dims[axis] > 1).is_sorted()
}

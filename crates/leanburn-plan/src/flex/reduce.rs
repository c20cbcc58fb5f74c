//! Workspaces of reductions.

use burn::backend::ir::TensorIr;
use burn::tensor::DType;

use super::inputs::{Inputs, bytes, elements, is_half, new_output};
use crate::memory_model::{Effect, Place};

/// Half-precision values are widened to f32, all at once.
pub(super) fn mean(inputs: &Inputs<'_>) -> u64 {
    if is_half(inputs.dtype(0)) { inputs.copy(0) + 4 * inputs.elements(0) } else { 0 }
}

/// Values out of order are copied unless at most one axis lies on each side; half-precision ones always are.
pub(super) fn sum_dim(inputs: &Inputs<'_>, dim: usize, output: &TensorIr) -> u64 {
    let rank = inputs.dims(0).len();
    let copy = if is_half(inputs.dtype(0)) || dim > 1 || rank - dim > 2 { inputs.copy(0) } else { 0 };
    let in_order = inputs.is_contiguous(0) || copy > 0;
    copy + if in_order { accumulator(inputs.dtype(0), dim, rank, bytes(output)) } else { 0 }
}

/// Sums along another axis than the last are made in an aligned buffer, then copied.
fn accumulator(dtype: DType, dim: usize, rank: usize, output: u64) -> u64 {
    if dtype == DType::F32 && dim + 1 < rank { output } else { 0 }
}

/// As the sum; half-precision values are widened to f32, all at once.
pub(super) fn mean_dim(inputs: &Inputs<'_>, dim: usize, output: &TensorIr) -> u64 {
    if !is_half(inputs.dtype(0)) {
        return sum_dim(inputs, dim, output);
    }
    let sums = 4 * elements(output);
    let inner: usize = inputs.dims(0)[dim + 1..].iter().product();
    let accumulator = if inner > 1 { sums.max(bytes(output)) } else { bytes(output) };
    inputs.copy(0) + 4 * inputs.elements(0) + sums + accumulator - bytes(output)
}

/// One axis after another.
pub(super) fn sum_dims(inputs: &Inputs<'_>, dims: &[usize], output: &TensorIr) -> u64 {
    let (rank, dtype) = (inputs.dims(0).len(), inputs.dtype(0));
    let mut sum = output.clone();
    sum.shape = inputs.tensor(0).shape.clone();
    let (mut peak, mut before) = (0, 0);
    for (step, &dim) in dims.iter().enumerate() {
        sum.shape[dim] = 1;
        let workspace = match step {
            0 => sum_dim(inputs, dim, &sum),
            _ => accumulator(dtype, dim, rank, bytes(&sum)),
        };
        peak = peak.max(before + bytes(&sum) + workspace);
        before = bytes(&sum);
    }
    peak.saturating_sub(bytes(output))
}

/// The extreme values are found with their positions, except along the last axis in f32; positions are 64 bits wide.
pub(super) fn arg(inputs: &Inputs<'_>, dim: usize, output: &TensorIr) -> u64 {
    let is_fast = inputs.dtype(0) == DType::F32 && dim + 1 == inputs.dims(0).len();
    let values = if is_fast { 0 } else { elements(output) * inputs.dtype(0).size() as u64 };
    let wide = if output.dtype == DType::I64 { 0 } else { 8 * elements(output) };
    inputs.copy(0) + values.max(wide)
}

/// Extreme values and their positions, which are found 64 bits wide; `workspace` is that of the values.
pub(super) fn with_indices(workspace: u64, indices: &TensorIr) -> Effect {
    let wide = if indices.dtype == DType::I64 { 0 } else { 8 * elements(indices) };
    Effect { outputs: vec![(Place::New, true); 2], ..new_output(workspace + wide) }
}

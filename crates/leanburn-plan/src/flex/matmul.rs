//! Workspaces of matrix products and linear layers.

use burn::backend::ir::TensorIr;
use burn::tensor::DType;

use super::gemm::{Gemm, PARALLEL};
use super::inputs::{Inputs, Workspace, elements};
use super::reduce;

/// A factor of a product.
#[derive(Clone, Copy)]
struct Factor<'a> {
    batch: &'a [usize],
    rows: usize,
    columns: usize,
    /// Whether its values lie in row-major order.
    is_contiguous: bool,
}

impl<'a> Factor<'a> {
    fn of(inputs: &Inputs<'a>, input: usize) -> Self {
        let [batch @ .., rows, columns] = inputs.dims(input) else { unreachable!("a matrix has two axes") };
        Self { batch, rows: *rows, columns: *columns, is_contiguous: inputs.is_contiguous(input) }
    }

    /// As one matrix, all leading axes being rows.
    fn flat(self) -> Self {
        let rows = self.batch.iter().product::<usize>() * self.rows;
        Self { batch: &[], rows, ..self }
    }

    fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, is_contiguous: self.rows == 1 || self.columns == 1, ..self }
    }

    fn elements(self) -> u64 {
        (self.batch.iter().product::<usize>() * self.rows * self.columns) as u64
    }
}

/// Work from which Flex runs matrices of a batch on several threads.
const BATCH_WORK: usize = 128 * 128 * 128;

fn product(left: Factor<'_>, right: Factor<'_>, dtype: DType) -> Workspace {
    let rank = left.batch.len().max(right.batch.len());
    let size = |factor: Factor<'_>, axis: usize| {
        (axis + factor.batch.len()).checked_sub(rank).map_or(1, |axis| factor.batch[axis])
    };
    let batch: usize = (0..rank).map(|axis| size(left, axis).max(size(right, axis))).product();
    let output = (batch * left.rows * right.columns) as u64;
    let gemm = Gemm {
        rows: left.rows,
        columns: right.columns,
        inner: left.columns,
        is_left_row_major: left.is_contiguous || dtype == DType::BF16,
        is_right_row_major: right.is_contiguous || dtype == DType::BF16,
        dtype: if dtype == DType::BF16 { DType::F32 } else { dtype },
    };
    let all = gemm.work().saturating_mul(batch);
    let is_batch_parallel = all >= BATCH_WORK && if gemm.work() >= PARALLEL { batch >= 4 } else { batch > 1 };
    let at_once = if is_batch_parallel { batch.min(rayon::current_num_threads()) } else { 1 };
    let kept = gemm.kept(if is_batch_parallel { batch } else { 1 });
    let scratch = at_once as u64 * gemm.scratch().packed;
    if dtype != DType::BF16 {
        return Workspace { bytes: scratch.max(output * dtype.size() as u64), kept }; // zeros are made as bytes, then copied
    }
    // The factors in order, in f32, and the product in f32 before the one in bf16.
    let copy = |factor: Factor<'_>| if factor.is_contiguous { 0 } else { 2 * factor.elements() };
    let wide = 4 * (left.elements() + right.elements() + output);
    Workspace { bytes: copy(left) + copy(right) + wide + scratch.max(4 * output) - 2 * output, kept }
}

/// A product of two inputs.
pub(super) fn matmul(inputs: &Inputs<'_>) -> Workspace {
    product(Factor::of(inputs, 0), Factor::of(inputs, 1), inputs.dtype(0))
}

/// The product of a layer's input and weight. Few rows in many batches are computed as one matrix, for which an input out of
/// order is copied.
fn layer(x: Factor<'_>, weight: Factor<'_>, dtype: DType) -> Workspace {
    let (batch, columns) = (x.batch.iter().product::<usize>(), weight.columns);
    let rows = batch * x.rows;
    let is_squarer = rows.min(columns) * x.rows.max(columns) > x.rows.min(columns) * rows.max(columns);
    if batch == 1 || x.rows.is_multiple_of(32) || !is_squarer {
        // The weight gets leading axes, for which one out of order is copied.
        let is_copied = !x.batch.is_empty() && !weight.is_contiguous;
        let copy = if is_copied { weight.elements() * dtype.size() as u64 } else { 0 };
        let is_contiguous = weight.is_contiguous || is_copied;
        return product(x, Factor { is_contiguous, ..weight }, dtype).and(copy);
    }
    let copy = if x.is_contiguous { 0 } else { x.elements() * dtype.size() as u64 };
    product(Factor { is_contiguous: true, ..x.flat() }, weight, dtype).and(copy)
}

/// Inputs are `x, weight` and perhaps a bias, which is added in place.
pub(super) fn linear(inputs: &Inputs<'_>) -> Workspace {
    layer(Factor::of(inputs, 0), Factor::of(inputs, 1), inputs.dtype(0))
}

/// Inputs are `weight, gradient of the output`.
pub(super) fn linear_x_backward(inputs: &Inputs<'_>) -> Workspace {
    layer(Factor::of(inputs, 1), Factor::of(inputs, 0).transposed(), inputs.dtype(1))
}

/// Inputs are `x, gradient of the output`, both as one matrix.
pub(super) fn linear_weight_backward(inputs: &Inputs<'_>) -> Workspace {
    let flat = |input| Factor { is_contiguous: true, ..Factor::of(inputs, input).flat() };
    let copy = |input| if inputs.dims(input).len() == 2 { 0 } else { inputs.copy(input) };
    product(flat(0).transposed(), flat(1), inputs.dtype(0)).and(copy(0) + copy(1))
}

/// The input is the gradient of the output, summed over all axes but the last.
pub(super) fn linear_bias_backward(inputs: &Inputs<'_>, output: &TensorIr) -> u64 {
    match inputs.dims(0).len() {
        2 => reduce::sum_dim(inputs, 0, output),
        _ if inputs.dtype(0) == DType::F32 => inputs.copy(0) + 4 * elements(output),
        _ => inputs.copy(0),
    }
}

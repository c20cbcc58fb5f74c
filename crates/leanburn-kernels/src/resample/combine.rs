//! Weighted sums of whole rows.

use pulp::Simd;

use crate::simd::{load, store};

/// Rows summed in registers before they are added to the rows before, so that errors of long sums stay small.
pub(super) const BLOCK: usize = 16;

/// Rows at a fixed distance in a slice, taken round and round.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub values: &'a [f32],
    /// From the start of one row to the start of the next.
    pub stride: usize,
    /// Row `row` is at the place `row % slots`.
    pub slots: usize,
}

impl<'a> Rows<'a> {
    /// Where a row starts.
    #[inline(always)]
    fn offset(&self, row: usize) -> usize {
        row % self.slots * self.stride
    }

    /// One row.
    #[inline(always)]
    pub(super) fn row(&self, row: usize, width: usize) -> &'a [f32] {
        &self.values[self.offset(row)..][..width]
    }
}

/// The weighted sum of the rows from `first` on.
#[inline(always)]
pub(super) fn combine<S: Simd>(simd: S, rows: Rows<'_>, first: usize, weights: &[f32], output: &mut [f32]) {
    if weights.is_empty() {
        output.fill(0.0);
    }
    for (block, weights) in weights.chunks(BLOCK).enumerate() {
        combine_block(simd, rows, first + block * BLOCK, weights, block > 0, output);
    }
}

/// The weighted sum of up to [`BLOCK`] rows, added to the output if `accumulate`.
#[inline(always)]
pub(super) fn combine_block<S: Simd>(
    simd: S,
    rows: Rows<'_>,
    first: usize,
    weights: &[f32],
    accumulate: bool,
    output: &mut [f32],
) {
    let width = output.len();
    let mut terms = [(0.0, std::ptr::null()); BLOCK];
    for (term, (row, weight)) in terms.iter_mut().zip((first..).zip(weights)) {
        *term = (*weight, rows.row(row, width).as_ptr());
    }
    let terms = &terms[..weights.len()];
    let mut start = 0;
    // SAFETY: each pointer is to a row of `width` values, and so is the output; the pieces of both loops end within.
    unsafe {
        while start + 4 * S::F32_LANES <= width {
            sum::<S, 4>(simd, terms, start, accumulate, output.as_mut_ptr().add(start));
            start += 4 * S::F32_LANES;
        }
        while start + S::F32_LANES <= width {
            sum::<S, 1>(simd, terms, start, accumulate, output.as_mut_ptr().add(start));
            start += S::F32_LANES;
        }
    }
    for (column, output) in output.iter_mut().enumerate().skip(start) {
        let mut total = 0.0;
        for (weight, row) in terms {
            // SAFETY: each row has `width` values.
            total += weight * unsafe { *row.add(column) };
        }
        *output = if accumulate { *output + total } else { total };
    }
}

/// The weighted sum of `VECTORS` vectors from `start` on of each row.
///
/// # Safety
///
/// Each row must have these values, and as many must be readable and writable at `output`.
#[inline(always)]
unsafe fn sum<S: Simd, const VECTORS: usize>(
    simd: S,
    terms: &[(f32, *const f32)],
    start: usize,
    accumulate: bool,
    output: *mut f32,
) {
    let mut totals = [simd.splat_f32s(0.0); VECTORS];
    for (weight, row) in terms {
        let weight = simd.splat_f32s(*weight);
        for (vector, total) in totals.iter_mut().enumerate() {
            // SAFETY: the caller says that each row has these values.
            let values = unsafe { load::<S>(row.add(start + vector * S::F32_LANES)) };
            *total = simd.mul_add_e_f32s(values, weight, *total);
        }
    }
    for (vector, total) in totals.into_iter().enumerate() {
        // SAFETY: the caller says that the output has these values.
        unsafe {
            let target = output.add(vector * S::F32_LANES);
            let total = if accumulate { simd.add_f32s(load::<S>(target), total) } else { total };
            store::<S>(target, total);
        }
    }
}

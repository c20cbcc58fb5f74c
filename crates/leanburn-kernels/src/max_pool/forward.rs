//! The largest value of each window.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::rows::{Rows, replaces, widened};
use super::windows::{AxisWindows, Interior, PoolWindows};
use crate::Stored;

/// Inputs that are worth a task.
const TASK: usize = 1 << 14;

/// [`max_pool`](super::max_pool) with a given instruction set.
pub(crate) fn max_pool_on<E: Stored>(arch: Arch, windows: &PoolWindows, input: &[E], output: &mut [E]) {
    let volume = windows.input().iter().product::<usize>();
    let [depth, height, width] = windows.output();
    assert_eq!(input.len(), windows.items() * volume, "the input is [items, depth, height, width] of the windows");
    let expected = windows.items() * depth * height * width;
    assert_eq!(output.len(), expected, "the output is [items, depth, height, width] of the windows");
    let interior = windows.axes[2].interior();
    let per_plane = volume.div_ceil(depth);
    output.par_chunks_mut(height * width).enumerate().with_min_len((TASK / per_plane).max(1)).for_each_init(
        || Rows::new(windows),
        |rows, (plane, output)| {
            let input = &input[plane / depth * volume..][..volume];
            arch.dispatch(MaxPlane { windows, interior: &interior, input, plane: plane % depth, output, rows });
        },
    );
}

/// One plane of the output.
struct MaxPlane<'a, E> {
    windows: &'a PoolWindows,
    interior: &'a Interior,
    /// The item.
    input: &'a [E],
    /// Which plane of the item.
    plane: usize,
    output: &'a mut [E],
    rows: &'a mut Rows,
}

impl<E: Stored> WithSimd for MaxPlane<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { windows, interior, input, plane, output, rows } = self;
        let [depths, heights, widths] = &windows.axes;
        let width = widths.input_len;
        for (row, output) in output.chunks_exact_mut(widths.output_len()).enumerate() {
            rows.largest.fill(f32::NEG_INFINITY);
            for z in depths.elements(plane) {
                for y in heights.elements(row) {
                    let source = &input[(z * heights.input_len + y) * width..][..width];
                    let source = widened(source, &mut rows.widened);
                    for (largest, value) in rows.largest.iter_mut().zip(source) {
                        *largest = if replaces(*value, *largest) { *value } else { *largest };
                    }
                }
            }
            max_of_row(widths, interior, &rows.largest, &mut rows.best);
            E::narrow(&rows.best, output);
        }
    }
}

/// The largest value of each window of a row.
#[inline(always)]
fn max_of_row(windows: &AxisWindows, interior: &Interior, row: &[f32], best: &mut [f32]) {
    best.fill(f32::NEG_INFINITY);
    for output in interior.outside(windows.output_len()) {
        for x in windows.elements(output) {
            best[output] = if replaces(row[x], best[output]) { row[x] } else { best[output] };
        }
    }
    let best = &mut best[interior.outputs.clone()];
    for tap in interior.taps(windows.step) {
        let row = &row[tap..];
        match interior.stride {
            1 => max_of_tap::<1>(1, row, best),
            2 => max_of_tap::<2>(2, row, best),
            stride => max_of_tap::<0>(stride, row, best),
        }
    }
}

/// The larger of `best` and every `stride`-th value; `STRIDE` is the stride, or zero if it is not known beforehand.
#[inline(always)]
fn max_of_tap<const STRIDE: usize>(stride: usize, row: &[f32], best: &mut [f32]) {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let row = &row[..stride * (best.len() - 1) + 1];
    for (index, best) in best.iter_mut().enumerate() {
        // SAFETY: `index` is below the number of outputs, and the row was cut to end with the value of the last.
        let value = unsafe { *row.get_unchecked(stride * index) };
        *best = if replaces(value, *best) { value } else { *best };
    }
}

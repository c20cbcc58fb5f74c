//! The gradient of max pooling.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::rows::{Rows, replaces, widened};
use super::windows::{AxisWindows, Interior, PoolWindows};
use crate::Stored;
use crate::parallel::busy;

/// Most values of the gradient that a thread holds in float32, unless one plane is more.
pub(super) const SLAB: usize = 1 << 17;

/// [`max_pool_backward`](super::max_pool_backward) with a given instruction set, and about `slab` values of the gradient
/// for each task.
pub(crate) fn max_pool_backward_on<E: Stored>(
    arch: Arch,
    slab: usize,
    windows: &PoolWindows,
    input: &[E],
    gradient: &[E],
    input_gradient: &mut [E],
) {
    let [depth, height, width] = windows.input();
    let (volume, pooled) = (depth * height * width, windows.output().iter().product::<usize>());
    assert!(u32::try_from(volume).is_ok(), "an item has less than 2^32 values, not {volume}");
    assert_eq!(input.len(), windows.items() * volume, "the input is [items, depth, height, width] of the windows");
    assert_eq!(input_gradient.len(), input.len(), "the gradient of the input has its shape");
    let expected = windows.items() * pooled;
    assert_eq!(gradient.len(), expected, "the gradient is [items, depth, height, width] of the windows' output");
    let interior = windows.axes[2].interior();
    let slab = planes(slab, windows);
    input_gradient.par_chunks_mut(volume).enumerate().for_each(|(item, input_gradient)| {
        let input = &input[item * volume..][..volume];
        let gradient = &gradient[item * pooled..][..pooled];
        input_gradient.par_chunks_mut(slab * height * width).enumerate().for_each_init(
            || (Rows::new(windows), vec![0.0; slab * height * width]),
            |(rows, sums), (index, output)| {
                let planes = index * slab..((index + 1) * slab).min(depth);
                let sums = &mut sums[..output.len()];
                arch.dispatch(GradientSlab { windows, interior: &interior, input, gradient, planes, rows, sums });
                E::narrow(sums, output);
            },
        );
    });
}

/// Bytes that [`max_pool_backward`](super::max_pool_backward) takes at most, without its inputs and outputs, in the
/// current pool.
pub fn max_pool_backward_workspace(windows: &PoolWindows) -> usize {
    let [depth, height, width] = windows.input();
    let slab = planes(SLAB, windows);
    busy(windows.items() * depth.div_ceil(slab)) * (Rows::bytes(windows) + slab * height * width * size_of::<f32>())
}

/// Planes of a slab of about so many values.
fn planes(slab: usize, windows: &PoolWindows) -> usize {
    let [depth, height, width] = windows.input();
    (slab / (height * width)).clamp(1, depth)
}

/// Some planes of the gradient of an item.
struct GradientSlab<'a, E> {
    windows: &'a PoolWindows,
    interior: &'a Interior,
    /// The item.
    input: &'a [E],
    /// The gradient of its outputs.
    gradient: &'a [E],
    /// Which planes of the input.
    planes: Range<usize>,
    rows: &'a mut Rows,
    /// The gradient of these planes.
    sums: &'a mut [f32],
}

impl<E: Stored> WithSimd for GradientSlab<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { windows, interior, input, gradient, planes, rows, sums } = self;
        let [depths, heights, widths] = &windows.axes;
        sums.fill(0.0);
        let first = planes.start * heights.input_len * widths.input_len;
        let width = widths.output_len();
        for plane in (0..depths.output_len()).filter(|plane| depths.meets(*plane, &planes)) {
            for row in 0..heights.output_len() {
                find_row(windows, interior, input, [plane, row], rows);
                let gradient = &gradient[(plane * heights.output_len() + row) * width..][..width];
                for (place, gradient) in rows.places.iter().zip(gradient) {
                    // A place before the slab wraps around, and so is outside too.
                    if let Some(sum) = sums.get_mut((*place as usize).wrapping_sub(first)) {
                        *sum += gradient.to_f32();
                    }
                }
            }
        }
    }
}

/// Finds the place of the maximum of each window of a row of outputs.
#[inline(always)]
fn find_row<E: Stored>(
    windows: &PoolWindows,
    interior: &Interior,
    input: &[E],
    [plane, row]: [usize; 2],
    rows: &mut Rows,
) {
    let [depths, heights, widths] = &windows.axes;
    let offset = |z: usize, y: usize| (z * heights.input_len + y) * widths.input_len;
    let corner = offset(depths.ranges[plane].0, heights.ranges[row].0);
    rows.best.fill(f32::NEG_INFINITY);
    // Where nothing is above negative infinity, the first value is the maximum.
    for (place, (start, _)) in rows.places.iter_mut().zip(&widths.ranges) {
        *place = (corner + start) as u32;
    }
    for z in depths.elements(plane) {
        for y in heights.elements(row) {
            let source = widened(&input[offset(z, y)..][..widths.input_len], &mut rows.widened);
            find_in_row(widths, interior, source, offset(z, y) as u32, &mut rows.best, &mut rows.places);
        }
    }
}

/// Finds in one row of the input what is larger than the largest so far. The row starts at `offset` of the item.
#[inline(always)]
fn find_in_row(
    windows: &AxisWindows,
    interior: &Interior,
    row: &[f32],
    offset: u32,
    best: &mut [f32],
    places: &mut [u32],
) {
    for output in interior.outside(windows.output_len()) {
        for x in windows.elements(output) {
            if replaces(row[x], best[output]) {
                (best[output], places[output]) = (row[x], offset + x as u32);
            }
        }
    }
    let (best, places) = (&mut best[interior.outputs.clone()], &mut places[interior.outputs.clone()]);
    for tap in interior.taps(windows.step) {
        let (row, offset) = (&row[tap..], offset + tap as u32);
        match interior.stride {
            1 => find_tap::<1>(1, row, offset, best, places),
            2 => find_tap::<2>(2, row, offset, best, places),
            stride => find_tap::<0>(stride, row, offset, best, places),
        }
    }
}

/// The larger of `best` and every `stride`-th value, and where it is; `STRIDE` is the
/// stride, or zero if it is not known beforehand.
#[inline(always)]
fn find_tap<const STRIDE: usize>(stride: usize, row: &[f32], offset: u32, best: &mut [f32], places: &mut [u32]) {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let row = &row[..stride * (best.len() - 1) + 1];
    for (index, (best, place)) in best.iter_mut().zip(places).enumerate() {
        // SAFETY: `index` is below the number of outputs, and the row was cut to end with the value of the last.
        let value = unsafe { *row.get_unchecked(stride * index) };
        let replaces = replaces(value, *best);
        *best = if replaces { value } else { *best };
        *place = if replaces { offset + (stride * index) as u32 } else { *place };
    }
}

//! Register tiles with output channels in the lanes: for planes too small to fill vectors with positions, and where registers are few.
//!
//! The same sums as [`super::tap_sums`], with the roles exchanged: two vectors of output channels times a few columns of
//! one row, or of two short ones. Each loaded vector of weights serves all columns, each broadcast input both vectors.
//! Every position that is computed is used, and elements of the kernel that read rows outside of the volume can be left
//! out; in exchange the result comes out transposed.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::conv::tiles::tap_sums::{Registers, Tap};
use crate::simd::{apart, few_registers, load, store};
use crate::size::{product, reach};

/// Floats of weights that stay in the first-level cache (16 KiB).
const NEAR_WEIGHTS: usize = 4 * 1024;

/// The sums of one block of output channels at some rows.
#[derive(Debug)]
pub(crate) struct RowSums<'a> {
    /// Packed values from the row's first position on, `channel_stride` from one channel to the next.
    pub input: &'a [f32],
    /// Distance between channels of the input.
    pub channel_stride: usize,
    /// `[channels][elements][width]`.
    pub weight: &'a [f32],
    /// Elements per channel among the weights.
    pub elements: usize,
    /// Channels to sum over.
    pub channels: usize,
    /// Elements to sum over.
    pub taps: &'a [Tap],
    /// Output channels: two vectors.
    pub width: usize,
    /// Rows, as many at a time as [`rows_together`] says.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
    /// Positions from one row to the next.
    pub row_stride: usize,
    /// `[position][width]`, of which the columns of each row are written.
    pub target: &'a mut [f32],
    /// Whether to add to what the target holds.
    pub add: bool,
}

impl RowSums<'_> {
    /// Computes the sums.
    ///
    /// # Panics
    ///
    /// If a slice is too short, or the width is not two vectors.
    pub(crate) fn run(self, arch: Arch) {
        let furthest = self.taps.iter().map(|tap| tap.offset).max().unwrap_or(0);
        let reads = self.channels > 0 && !self.taps.is_empty();
        let positions = reach(self.rows, self.row_stride, self.columns);
        let last = reach(self.channels, self.channel_stride, furthest.saturating_add(positions));
        assert!(product(&[positions, self.width]) <= self.target.len(), "too little room");
        assert!(!reads || last <= self.input.len(), "too little input");
        assert!(self.taps.iter().all(|tap| tap.weight < self.elements), "a tap without weight");
        assert!(product(&[self.channels, self.elements, self.width]) <= self.weight.len(), "too few weights");
        arch.dispatch(self);
    }

    /// The sums at `COLUMNS` columns of `ROWS` rows.
    ///
    /// # Safety
    ///
    /// The slices are as long as [`RowSums::run`] checks, the width is two vectors, and there are the channels, that many rows, and
    /// columns from the position on.
    #[inline(always)]
    unsafe fn tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(&mut self, simd: S, part: &Part) {
        let (width, pitch) = (2 * S::F32_LANES, self.row_stride);
        let target = self.target.as_mut_ptr().wrapping_add(part.position * width);
        let mut sums = [[[simd.splat_f32s(0.0); 2]; COLUMNS]; ROWS];
        if self.add || part.channels.start > 0 {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (column, [low, high]) in sums.iter_mut().enumerate() {
                    // SAFETY: `run` has checked that the target holds two vectors for the last column of the last row.
                    unsafe {
                        let source = target.add((row * pitch + column) * width);
                        (*low, *high) = (load::<S>(source), load::<S>(source.add(S::F32_LANES)));
                    }
                }
            }
        }
        for channel in part.channels.clone() {
            let input = self.input.as_ptr().wrapping_add(channel * self.channel_stride + part.position);
            let weight = self.weight.as_ptr().wrapping_add(channel * self.elements * width);
            for tap in self.taps {
                // SAFETY: `run` has checked that each tap's weights exist, two vectors of them.
                let weights = unsafe {
                    let weight = weight.add(tap.weight * width);
                    [load::<S>(weight), load::<S>(weight.add(S::F32_LANES))]
                };
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (column, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: `run` has checked the last channel at the furthest tap for the last column.
                        let value = simd.splat_f32s(unsafe { *input.add(tap.offset + row * pitch + column) });
                        for (sum, weight) in sums.iter_mut().zip(weights) {
                            *sum = simd.mul_add_e_f32s(value, weight, *sum);
                        }
                    }
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (column, [low, high]) in sums.into_iter().enumerate() {
                // SAFETY: as for the loads above.
                unsafe {
                    let target = target.add((row * pitch + column) * width);
                    store::<S>(target, low);
                    store::<S>(target.add(S::F32_LANES), high);
                }
            }
        }
    }
}

/// A part of the work: channels, and the first position of the row or rows.
struct Part {
    channels: Range<usize>,
    position: usize,
}

/// Rows that [`RowSums`] computes at once: two, where they are short.
pub(crate) fn rows_together(registers: Registers, columns: usize) -> usize {
    if 2 * columns <= most_columns(registers.few) { 2 } else { 1 }
}

/// Columns, of all rows together, whose sums fit the registers.
#[inline(always)]
fn most_columns(few_registers: bool) -> usize {
    if few_registers { 6 } else { 12 }
}

impl WithSimd for RowSums<'_> {
    type Output = ();

    /// Divides each row into parts of nearly equal length that fit the registers. With few registers a part is short and reads all weights, so that as
    /// many channels are taken at a time as have weights in the first-level cache; the sums between are in the target.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        assert_eq!(self.width, 2 * S::F32_LANES);
        let few = few_registers::<S>();
        let registers = Registers { few, lanes: S::F32_LANES };
        let rows_together = rows_together(registers, self.columns);
        let parts = (rows_together * self.columns).div_ceil(most_columns(few));
        let near = NEAR_WEIGHTS / (self.taps.len() * self.width).max(1);
        let channels_together = if few { near.max(1) } else { self.channels.max(1) };
        // Without channels the sums are zero.
        for first in (0..self.channels.max(1)).step_by(channels_together) {
            let channels = first..(first + channels_together).min(self.channels);
            for row in (0..self.rows).step_by(rows_together) {
                let rows = rows_together.min(self.rows - row);
                for part in 0..parts {
                    let column = part * self.columns / parts;
                    let length = (part + 1) * self.columns / parts - column;
                    let part = Part { channels: channels.clone(), position: row * self.row_stride + column };
                    // SAFETY: the part lies inside of the rows, and the width is two vectors.
                    unsafe {
                        match (rows, length, few) {
                            (1, 1, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 1>(simd, &part),
                            ),
                            (1, 2, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 2>(simd, &part),
                            ),
                            (1, 3, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 3>(simd, &part),
                            ),
                            (1, 4, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 4>(simd, &part),
                            ),
                            (1, 5, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 5>(simd, &part),
                            ),
                            (1, 6, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 6>(simd, &part),
                            ),
                            (1, 7, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 7>(simd, &part),
                            ),
                            (1, 8, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 8>(simd, &part),
                            ),
                            (1, 9, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 9>(simd, &part),
                            ),
                            (1, 10, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 10>(simd, &part),
                            ),
                            (1, 11, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 11>(simd, &part),
                            ),
                            (1, 12, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 1, 12>(simd, &part),
                            ),
                            (2, 1, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 1>(simd, &part),
                            ),
                            (2, 2, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 2>(simd, &part),
                            ),
                            (2, 3, _) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 3>(simd, &part),
                            ),
                            (2, 4, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 4>(simd, &part),
                            ),
                            (2, 5, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 5>(simd, &part),
                            ),
                            (2, 6, false) => apart(
                                simd,
                                #[inline(always)]
                                || self.tile::<S, 2, 6>(simd, &part),
                            ),
                            _ => unreachable!("a part fits the registers"),
                        }
                    }
                }
            }
        }
    }
}

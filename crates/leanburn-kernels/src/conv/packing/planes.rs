//! Planes of a volume, made ready for the tap sums: float32, prologue applied, padded with zeros, split by phases.
//!
//! A kernel with stride `s` reads every `s`-th value of a row. Packed, the values that lie `s` apart are neighbours: the
//! row (column) at coordinate `u` from the window's first goes to phase `u % s`, index `u / s`. Then every element of
//! the kernel is a constant distance in memory ([`Window::offset`]) for *all* outputs of a tile, which are numbered
//! flat: output `(row, column)` of the tile is position `row * window.size[1] + column`, so that vectors run across the
//! ends of rows, and what the few columns at each row's end hold is dropped (or multiplied by zero) by the user.

use std::ops::Range;

use pulp::Simd;

use crate::cache::second_level_cache;
use crate::conv::operands::Input;
use crate::conv::packing::ahead::Part;
use crate::simd::{load_part, prefetch, prefetch_near, store_part};
use crate::{Activation, Stored};

/// Values that must be readable (and initialised) after the last packed channel, for vectors that begin inside it.
pub(crate) const SLACK: usize = 16;

/// Elements of a channel above which the next channel is worth a prefetch.
const FAR: usize = 2048;

/// Lines that a set of the second-level cache holds, at least.
const WAYS: usize = 8;

/// A volume to pack from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a, E> {
    /// `[batch_size, channels, depth, height, width]`.
    pub input: Input<'a, E>,
    /// Channels of the volume, of all groups.
    pub channels: usize,
    /// Depth, height and width.
    pub size: [usize; 3],
}

impl<E: Stored> Source<'_, E> {
    /// Number of the channel among all items, and the element at which a row begins.
    #[inline(always)]
    pub(crate) fn row(&self, [item, channel, depth, row]: [usize; 4]) -> (usize, usize) {
        let [depths, rows, width] = self.size;
        let plane = item * self.channels + channel;
        (plane, ((plane * depths + depth) * rows + row) * width)
    }

    /// Asks for part of a row, to be read soon. Rows of one channel follow each other in memory and are foreseen by the
    /// processor, the next channel is far away.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: [usize; 4], columns: &Range<usize>) {
        if self.size.iter().product::<usize>() > FAR {
            let first = self.row(place).1;
            for line in (first + columns.start..first + columns.end).step_by(64 / size_of::<E>()) {
                prefetch_near(self.input.values.as_ptr().wrapping_add(line));
            }
        }
    }

    /// Asks for the rows of a window, to be read when a few other planes are packed.
    #[inline(always)]
    pub(crate) fn prefetch_window(&self, window: &Window, [item, channel, depth]: [usize; 3]) {
        let rows = self.rows_inside(window);
        let [first, last] = [rows.start, rows.end].map(|row| self.row([item, channel, depth, row]).1);
        for line in (first..last).step_by(64 / size_of::<E>()) {
            prefetch(self.input.values.as_ptr().wrapping_add(line));
        }
    }

    /// How many channels can be asked for long before they are read: where their distance is a multiple of a large power of two, they
    /// are in each other's way in the cache.
    pub(crate) fn channels_ahead(&self) -> usize {
        let (way, channel) = (second_level_cache() / WAYS, self.size.iter().product::<usize>() * size_of::<E>());
        WAYS / 2 * (way >> channel.trailing_zeros().min(30)).max(1)
    }

    /// The rows of a window in one plane of some channels, no more of them than [`Self::channels_ahead`]; for
    /// [`Ahead`](super::ahead::Ahead).
    pub(crate) fn part(&self, window: &Window, item: usize, channels: Range<usize>, depth: usize) -> Part {
        let rows = self.rows_inside(window);
        let (columns, _) = window.columns_inside(self.size[2]);
        let first = self.row([item, channels.start, depth, rows.start]).1 + columns.start;
        let channels = [channels.len().min(self.channels_ahead()), self.size.iter().product()];
        Part::new(self.input.values.as_ptr().wrapping_add(first), columns.len(), [rows.len(), self.size[2]], channels)
    }

    /// Rows of the volume inside of a window.
    pub(crate) fn rows_inside(&self, window: &Window) -> Range<usize> {
        let end = window.first[0] + (window.size[0] * window.step[0]) as isize;
        let [start, end] = [window.first[0], end].map(|row| row.clamp(0, self.size[1] as isize) as usize);
        start..end
    }

    /// Part of a row as it is stored.
    #[inline(always)]
    pub(crate) fn plain(&self, place: [usize; 4], columns: &Range<usize>) -> &[E] {
        let first = self.row(place).1;
        &self.input.values[first + columns.start..first + columns.end]
    }

    /// Reads part of one row as float32, prologue applied; `target` is as long as `columns`.
    ///
    /// `place` is the item of the batch, the channel (of all groups), the depth and the row.
    #[inline(always)]
    pub(crate) fn read<S: Simd>(&self, simd: S, place: [usize; 4], columns: Range<usize>, target: &mut [f32]) {
        prepare(simd, &self.affine(simd, place), self.plain(place, &columns), target);
    }

    /// What the prologue does to the channel of an item, `place` as for [`Self::read`].
    #[inline(always)]
    pub(crate) fn affine<S: Simd>(&self, simd: S, place: [usize; 4]) -> Option<Affine<S>> {
        let prologue = self.input.prologue.as_ref()?;
        let plane = self.row(place).0;
        let [scale, shift] = [prologue.scale, prologue.shift].map(|values| simd.splat_f32s(values[plane]));
        Some(Affine { scale, shift, activation: prologue.activation })
    }
}

/// What a prologue does to one channel of an item.
pub(crate) struct Affine<S: Simd> {
    scale: S::f32s,
    shift: S::f32s,
    activation: Activation,
}

/// Applies the prologue, if there is one. (A closure over it would be compiled for another instruction set.)
#[inline(always)]
pub(crate) fn prepared<S: Simd>(simd: S, prologue: &Option<Affine<S>>, values: S::f32s) -> S::f32s {
    match prologue {
        None => values,
        Some(Affine { scale, shift, activation }) => {
            activation.apply(simd, simd.mul_add_e_f32s(values, *scale, *shift))
        }
    }
}

/// Values as float32, [`prepared`]; the target is as long.
#[inline(always)]
pub(crate) fn prepare<S: Simd, E: Stored>(simd: S, prologue: &Option<Affine<S>>, values: &[E], target: &mut [f32]) {
    match E::as_f32(values) {
        Some(values) => {
            let ((vectors, rest), (targets, target_rest)) = (S::as_simd_f32s(values), S::as_mut_simd_f32s(target));
            for (target, vector) in targets.iter_mut().zip(vectors) {
                *target = prepared(simd, prologue, *vector);
            }
            if !rest.is_empty() {
                store_part(simd, target_rest, prepared(simd, prologue, load_part(simd, rest)));
            }
        }
        None => {
            E::widen(values, target);
            if prologue.is_some() {
                let (vectors, rest) = S::as_mut_simd_f32s(target);
                for vector in vectors {
                    *vector = prepared(simd, prologue, *vector);
                }
                if !rest.is_empty() {
                    let last = prepared(simd, prologue, load_part(simd, rest));
                    store_part(simd, rest, last);
                }
            }
        }
    }
}

/// The part of a plane that a tile needs. Index 0 of each field is for rows, index 1 for columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Coordinate of the first row (column) in the volume. What lies outside of the volume is packed as zero.
    pub first: [isize; 2],
    /// Distance of the rows (columns) that are to be neighbours: the stride.
    pub step: [usize; 2],
    /// Phases to pack, from 1 to `step`: one more than the highest phase that any element of the kernel reads.
    pub phases: [usize; 2],
    /// Rows (columns) of each phase: those of the tile and the highest index that any element of the kernel adds.
    pub size: [usize; 2],
}

impl Window {
    /// The window for `tile` rows and columns of outputs of which the first reads at `first`, where the elements of the
    /// kernel read at the distances `reads[axis]` (from `first`, not sorted, at least one) of it.
    pub(crate) fn new(first: [isize; 2], step: [usize; 2], tile: [usize; 2], reads: [&[usize]; 2]) -> Self {
        let most = |axis: usize, of: fn(usize, usize) -> usize| -> usize {
            reads[axis].iter().map(|read| of(*read, step[axis])).max().unwrap_or(0)
        };
        Self {
            first,
            step,
            phases: std::array::from_fn(|axis| most(axis, |read, step| read % step) + 1),
            size: std::array::from_fn(|axis| most(axis, |read, step| read / step) + tile[axis]),
        }
    }

    /// The same window with rows that share their zeros: those at the end of a row with those at the beginning of the
    /// next, so that fewer positions are dropped. What is read beyond the last row of a channel must be zero, too: it is
    /// at the beginning of the next packed channel; after the last, the caller keeps [`SLACK`] zeros.
    pub(crate) fn sharing_zeros(mut self, width: usize, tile_width: usize) -> Self {
        let before = (-self.first[1]).max(0) as usize;
        let after = (self.first[1] + self.size[1] as isize - width as isize).max(0) as usize;
        if self.step[1] == 1 {
            self.size[1] -= before.min(after).min(self.size[1] - tile_width).min(SLACK);
        }
        self
    }

    /// How a plane of so many rows and columns is packed.
    pub(crate) fn layout(&self, plane: [usize; 2]) -> Layout {
        let zeros = std::array::from_fn(|axis| {
            let len = self.size[axis] * self.step[axis];
            let after = self.first[axis] + len as isize - plane[axis] as isize;
            [-self.first[axis], after].map(|outside| (outside.max(0) as usize).min(len))
        });
        Layout { size: self.size, zeros }
    }

    /// Length of one packed channel, `[row phase][column phase][row][column]`.
    pub(crate) fn channel_len(&self) -> usize {
        self.phases.iter().product::<usize>() * self.size.iter().product::<usize>()
    }

    /// Where the packed value at this distance (rows, columns) from the window's first lies in its channel; adding it to
    /// a position gives the value at this distance from what the output reads first.
    pub(crate) fn offset(&self, row: usize, column: usize) -> usize {
        let phase = (row % self.step[0]) * self.phases[1] + column % self.step[1];
        (phase * self.size[0] + row / self.step[0]) * self.size[1] + column / self.step[1]
    }

    /// Columns of the volume inside of the window, and the zeros of the window before them.
    pub(crate) fn columns_inside(&self, width: usize) -> (Range<usize>, usize) {
        let end = self.first[1] + (self.size[1] * self.step[1]) as isize;
        let (start, end) = (self.first[1].max(0), end.min(width as isize));
        if start >= end { (0..0, 0) } else { (start as usize..end as usize, (start - self.first[1]) as usize) }
    }
}

/// Where the values and the zeros of a packed plane lie: windows of one gather that have the same one can be packed over each other, without that
/// the zeros are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    size: [usize; 2],
    /// Rows and columns before and after those of the volume.
    zeros: [[usize; 2]; 2],
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pulp::Arch;

    use super::*;
    use crate::conv::operands::Prologue;
    use crate::conv::packing::fill::FillPlane;
    use crate::{Activation, simd};

    /// Packs some channels of a plane.
    fn pack(
        arch: Arch,
        source: &Source<f32>,
        window: &Window,
        [item, depth]: [usize; 2],
        channels: Range<usize>,
    ) -> Vec<f32> {
        let mut target = vec![0.0; channels.len() * window.channel_len()];
        arch.dispatch(FillPlane { source, window, item, channels, depth, room: &mut Vec::new(), target: &mut target });
        target
    }

    /// What a packed value should be: the source's, scaled and shifted, or zero outside.
    fn value(size: [usize; 3], plane: usize, depth: usize, row: isize, column: isize) -> f32 {
        let inside = |at: isize, len: usize| (0..len as isize).contains(&at);
        if !inside(row, size[1]) || !inside(column, size[2]) {
            return 0.0;
        }
        let index = ((plane * size[0] + depth) * size[1] + row as usize) * size[2] + column as usize;
        (index % 251) as f32 * 2.0 + 0.5 + plane as f32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn each_value_lies_where_its_offset_says(
            first in prop::array::uniform2(-4isize..8),
            step in prop::array::uniform2(1usize..4),
            tile in prop::array::uniform2(1usize..20),
            reads in prop::array::uniform2(prop::collection::vec(0usize..9, 1..4)),
            size in [1usize..3, 1usize..12, 1usize..40],
        ) {
            let (channels, items) = (3, 2);
            let values: Vec<f32> = (0..items * channels * size.iter().product::<usize>())
                .map(|index| (index % 251) as f32)
                .collect();
            let shift: Vec<f32> = (0..items * channels).map(|plane| plane as f32 + 0.5).collect();
            let scale = vec![2.0; shift.len()];
            let prologue = Some(Prologue { scale: &scale, shift: &shift, activation: Activation::None });
            let source = Source { input: Input { values: &values, prologue }, channels, size };
            let window = Window::new(first, step, tile, [&reads[0], &reads[1]]);
            let len = window.channel_len();
            for arch in simd::available() {
                let packed = pack(arch, &source, &window, [1, size[0] - 1], 1..3);
                for (channel, packed) in packed.chunks_exact(len).enumerate() {
                    for (row, column) in (0..tile[0]).flat_map(|row| (0..tile[1]).map(move |column| (row, column))) {
                        for (high, wide) in reads[0].iter().flat_map(|high| reads[1].iter().map(move |wide| (high, wide))) {
                            let position = row * window.size[1] + column;
                            let found = packed[position + window.offset(*high, *wide)];
                            let place = [row * step[0] + high, column * step[1] + wide].map(|at| at as isize);
                            let plane = channels + 1 + channel;
                            let expected = value(size, plane, size[0] - 1, first[0] + place[0], first[1] + place[1]);
                            prop_assert_eq!(found, expected);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_share_their_zeros_are_shorter() {
        let window = Window::new([-1, -1], [1, 1], [4, 5], [&[0, 2], &[0, 1, 2]]);
        let shared = window.sharing_zeros(5, 5);
        assert_eq!((window.size, shared.size), ([6, 7], [6, 6]));
        let values: Vec<f32> = (1..=40).map(|value| value as f32).collect();
        let source = Source { input: Input::plain(&values), channels: 2, size: [1, 4, 5] };
        let packed = pack(simd::best(), &source, &shared, [0, 0], 0..2);
        assert_eq!(packed[6..18], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(packed[shared.channel_len()..][..6], [0.0; 6]);
    }

    #[test]
    fn rows_share_no_zeros_where_a_tile_ends_inside() {
        let window = Window::new([-1, -1], [1, 1], [4, 5], [&[0, 2], &[0, 1, 2]]);
        assert_eq!(window.sharing_zeros(9, 5), window);
        let strided = Window::new([-1, -1], [1, 2], [4, 5], [&[0, 2], &[0, 1, 2]]);
        assert_eq!(strided.sharing_zeros(9, 5), strided);
    }
}

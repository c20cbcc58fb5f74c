//! Pieces of a head as float32 scratch: blocks of scalars, panels of lanes, and back.

use std::ops::Range;

use pulp::Simd;

use super::product::panel_width;
use crate::Stored;
use crate::buffer::Lines;

/// One head of a stored operand, `[head_channels, positions]`.
#[derive(Clone, Copy)]
pub(super) struct Head<'a, E> {
    pub values: &'a [E],
    pub positions: usize,
}

impl<'a, E: Stored> Head<'a, E> {
    /// The head of this index among all heads of the batch.
    pub fn of(values: &'a [E], index: usize, head_channels: usize, positions: usize) -> Self {
        let len = head_channels * positions;
        Self { values: &values[index * len..][..len], positions }
    }

    /// Widens `len` positions from `start` on, times `factor`, into panels `[panel][channel][width]`.
    ///
    /// A block is the one panel of width [`BLOCK`](super::product::BLOCK). Lanes beyond the last position keep what they held: lanes never
    /// meet, and theirs are not unpacked.
    #[inline(always)]
    pub fn pack(self, start: usize, len: usize, width: usize, factor: f32, target: &mut [f32]) {
        let channels = self.values.len() / self.positions;
        for (panel, target) in target.chunks_exact_mut(channels * width).take(len.div_ceil(width)).enumerate() {
            let used = width.min(len - panel * width);
            for (channel, target) in target.chunks_exact_mut(width).enumerate() {
                let source = &self.values[channel * self.positions + start + panel * width..][..used];
                let target = &mut target[..used];
                E::widen(source, target);
                if factor != 1.0 {
                    target.iter_mut().for_each(|value| *value *= factor);
                }
            }
        }
    }
}

/// Where a panel stands in its group.
pub(super) struct Place {
    /// Its positions among the group's.
    pub lanes: Range<usize>,
    /// Its values among the group's panels.
    pub values: Range<usize>,
    /// Vectors that hold positions.
    pub vectors: usize,
}

impl Place {
    /// The place of this panel in a group of `len` positions.
    #[inline(always)]
    pub fn of<S: Simd>(panel: usize, len: usize, channels: usize) -> Self {
        let width = panel_width::<S>();
        let (start, end) = (panel * width, (panel + 1) * width);
        let vectors = width.min(len - start).div_ceil(S::F32_LANES);
        Self { lanes: start..end, values: start * channels..end * channels, vectors }
    }
}

/// Rounds panels `[panel][channel][width]` into the columns of a result, one slice for each channel.
#[inline(always)]
pub(super) fn unpack<E: Stored>(panels: &[f32], width: usize, columns: &mut [&mut [E]]) {
    for (panel, source) in panels.chunks_exact(columns.len() * width).enumerate() {
        for (source, column) in source.chunks_exact(width).zip(columns.iter_mut()) {
            let Some(target) = column.get_mut(panel * width..) else { return };
            let used = width.min(target.len());
            E::narrow(&source[..used], &mut target[..used]);
        }
    }
}

/// Splits every head of a result into groups of positions: for each head and group, one slice for each channel.
pub(super) fn split_columns<E>(
    values: &mut [E],
    head_channels: usize,
    positions: usize,
    group: usize,
) -> Vec<Vec<&mut [E]>> {
    let heads = values.len() / (head_channels * positions);
    let mut split = Vec::with_capacity(heads * positions.div_ceil(group));
    for head in values.chunks_exact_mut(head_channels * positions) {
        let first = split.len();
        split.extend((0..positions.div_ceil(group)).map(|_| Vec::with_capacity(head_channels)));
        for row in head.chunks_exact_mut(positions) {
            split[first..].iter_mut().zip(row.chunks_mut(group)).for_each(|(columns, piece)| columns.push(piece));
        }
    }
    split
}

/// Bytes of the slices that [`split_columns`] makes of so many heads.
pub(super) fn columns_bytes(heads: usize, head_channels: usize, positions: usize, group: usize) -> usize {
    let columns = size_of::<Vec<&mut [f32]>>() + head_channels * size_of::<&mut [f32]>();
    heads * positions.div_ceil(group) * columns
}

/// Splits the values of every head, one for each position, into groups of positions.
pub(super) fn split_groups(values: &mut [f32], positions: usize, group: usize) -> Vec<&mut [f32]> {
    let mut split = Vec::with_capacity(values.len() / positions * positions.div_ceil(group));
    values.chunks_exact_mut(positions).for_each(|head| split.extend(head.chunks_mut(group)));
    split
}

/// Bytes of the slices that [`split_groups`] makes of so many heads.
pub(super) fn groups_bytes(heads: usize, positions: usize, group: usize) -> usize {
    heads * positions.div_ceil(group) * size_of::<&mut [f32]>()
}

/// Zeroed float32 scratch in `N` parts; each begins a cache line.
pub(super) struct Scratch<const N: usize> {
    values: Lines<f32>,
    lens: [usize; N],
}

/// Values of a cache line.
const LINE: usize = 64 / size_of::<f32>();

impl<const N: usize> Scratch<N> {
    /// Scratch in parts of at least these lengths.
    pub fn new(lens: [usize; N]) -> Self {
        let lens = lens.map(whole_lines);
        Self { values: Lines::new(lens.iter().sum()), lens }
    }

    /// Bytes of scratch in such parts.
    pub fn bytes(lens: [usize; N]) -> usize {
        Lines::<f32>::bytes(lens.map(whole_lines).iter().sum())
    }

    /// The parts.
    #[inline(always)]
    pub fn parts(&mut self) -> [&mut [f32]; N] {
        let mut rest = &mut *self.values;
        self.lens.map(|len| rest.split_off_mut(..len).expect("the parts fit the whole"))
    }
}

/// A length rounded up to whole cache lines.
fn whole_lines(len: usize) -> usize {
    len.next_multiple_of(LINE)
}

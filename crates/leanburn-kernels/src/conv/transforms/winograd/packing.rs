//! Planes of a volume, made ready for the products: rows transformed, columns padded with zeros.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{COMPONENTS, OUTPUTS};
use crate::Stored;
use crate::conv::gather::problem::Gather;
use crate::conv::packing::planes::{SLACK, Source};
use crate::conv::tiles::tap_sums::LANES;
use crate::conv::transforms::minimal_filter;
use crate::simd::{load, store_part};
use crate::size::whole;

/// The part of a plane that a tile reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    /// Coordinates of the first row and column. What lies outside of the volume is zero.
    pub first: [isize; 2],
    /// Groups of rows, one every [`OUTPUTS`] rows.
    pub groups: usize,
    /// Rows that are needed; those after them count as zeros.
    pub rows: usize,
    /// Columns from one row to the next.
    pub width: usize,
}

impl Strip {
    /// What a tile of groups of rows and of columns reads of a plane, each row apart.
    pub(super) fn apart(gather: &Gather, first: [usize; 2], tile: [usize; 2]) -> Self {
        let [_, rows, columns] = &gather.axes;
        Self {
            first: [rows.first + (first[0] * OUTPUTS) as isize, columns.first + first[1] as isize],
            groups: tile[0],
            rows: (rows.output - first[0] * OUTPUTS).min(tile[0] * OUTPUTS) + COMPONENTS - OUTPUTS,
            width: tile[1] + columns.span() - 1,
        }
    }

    /// The same with rows that share their zeros: those at the end of a row with those at the beginning of the next.
    /// After the last channel, the caller keeps [`SLACK`] zeros.
    pub(super) fn shared(gather: &Gather, first: [usize; 2], tile: [usize; 2]) -> Self {
        let mut strip = Self::apart(gather, first, tile);
        let before = (-strip.first[1]).max(0) as usize;
        let after = (strip.first[1] + strip.width as isize - gather.axes[2].input as isize).max(0) as usize;
        strip.width -= before.min(after).min(strip.width - tile[1]).min(SLACK);
        strip
    }

    /// Flat positions of the tile that has so many columns.
    pub(super) fn positions(&self, columns: usize) -> usize {
        (self.groups - 1) * self.width + columns
    }

    /// Length of one packed channel, `[component][group][column]`.
    pub(super) fn channel_len(&self) -> usize {
        COMPONENTS * self.component_len()
    }

    /// From one component to the next.
    pub(super) fn component_len(&self) -> usize {
        self.groups * self.width
    }

    /// Length of [`PackStrip::rows`].
    pub(super) fn room(&self) -> usize {
        COMPONENTS * self.width.next_multiple_of(LANES)
    }

    /// Columns of the volume inside of the strip, and the zeros of the strip before them.
    fn columns_inside(&self, width: usize) -> (Range<usize>, usize) {
        let end = (self.first[1] + self.width as isize).min(width as isize);
        let start = self.first[1].max(0);
        if start >= end { (0..0, 0) } else { (start as usize..end as usize, (start - self.first[1]) as usize) }
    }
}

/// Packs `channels` (numbered over all groups) of the plane at `depth` of `item`.
pub(super) struct PackStrip<'a, 'b, E> {
    pub source: &'a Source<'b, E>,
    pub strip: &'a Strip,
    pub item: usize,
    pub channels: Range<usize>,
    pub depth: usize,
    /// Room for six rows.
    pub rows: &'a mut Vec<f32>,
    /// `[channel][component][group][column]`, all written.
    pub target: &'a mut [f32],
}

impl<E: Stored> PackStrip<'_, '_, E> {
    /// Does it.
    pub(super) fn run(self, arch: Arch) {
        assert_eq!(self.target.len(), self.channels.len() * self.strip.channel_len());
        self.rows.clear();
        self.rows.resize(self.strip.room(), 0.0);
        arch.dispatch(self);
    }
}

impl<E: Stored> WithSimd for PackStrip<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { source, strip, item, channels, depth, rows, target } = self;
        let (columns, before) = strip.columns_inside(source.size[2]);
        let row_len = rows.len() / COMPONENTS;
        let last = channels.end.saturating_sub(1);
        for (channel, target) in channels.zip(target.chunks_exact_mut(strip.channel_len())) {
            for group in 0..strip.groups {
                // The last two rows of a group are the first of the next; they stay where they are.
                let places: [usize; COMPONENTS] = std::array::from_fn(|row| (group * OUTPUTS + row) % COMPONENTS);
                let known = if group == 0 { 0 } else { COMPONENTS - OUTPUTS };
                for row in known..COMPONENTS {
                    let number = group * OUTPUTS + row;
                    let target = &mut rows[places[row] * row_len + before..][..columns.len()];
                    let row = strip.first[0] + number as isize;
                    if number >= strip.rows || row < 0 || row >= source.size[1] as isize {
                        target.fill(0.0);
                        continue;
                    }
                    if channel < last {
                        source.prefetch([item, channel + 1, depth, row as usize], &columns);
                    }
                    source.read(simd, [item, channel, depth, row as usize], columns.clone(), target);
                }
                let target = &mut target[group * strip.width..];
                transform_rows(simd, rows, places, strip.width, target, strip.component_len());
            }
        }
    }
}

/// Transforms six rows of `width` columns, of which row `r` is number `places[r]` in `rows`; component `c` goes to
/// `target[c * stride..]`.
#[inline(always)]
fn transform_rows<S: Simd>(
    simd: S,
    rows: &[f32],
    places: [usize; COMPONENTS],
    width: usize,
    target: &mut [f32],
    stride: usize,
) {
    let row_len = rows.len() / COMPONENTS;
    assert!(whole(width, LANES) <= row_len);
    for column in (0..width).step_by(S::F32_LANES) {
        let mut values = [simd.splat_f32s(0.0); COMPONENTS];
        for (value, place) in values.iter_mut().zip(places) {
            let row = &rows[place * row_len..][..row_len];
            // SAFETY: rows are whole vectors long, and `column` is the first of a vector that begins inside.
            *value = unsafe { load::<S>(row.as_ptr().add(column)) };
        }
        let values = minimal_filter::input(simd, values);
        for (component, value) in values.into_iter().enumerate() {
            let target = &mut target[component * stride + column..];
            if width - column >= S::F32_LANES {
                let (vectors, _) = S::as_mut_simd_f32s(&mut target[..S::F32_LANES]);
                vectors[0] = value;
            } else {
                store_part(simd, &mut target[..width - column], value);
            }
        }
    }
}

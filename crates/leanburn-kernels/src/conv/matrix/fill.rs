//! Packs planes as bfloat16, prologue applied, padded with zeros, split by phases.
//!
//! Only what lies inside of the volume is written, as in [`FillPlane`](crate::conv::packing::fill::FillPlane).

use std::ops::Range;

use half::bf16;
use pulp::{Simd, WithSimd};

use crate::Stored;
use crate::conv::matrix::halves;
use crate::conv::packing::planes::{Source, Window};
use crate::tile_products::{Pair, pair};

/// Room for rows of a volume, prologue applied: float32, and rounded, of two channels.
#[derive(Debug)]
pub(super) struct RowRoom {
    exact: Vec<f32>,
    rounded: [Vec<bf16>; 2],
}

impl RowRoom {
    /// For rows of so many columns.
    pub(super) fn new(columns: usize) -> Self {
        Self { exact: vec![0.0; columns], rounded: [vec![bf16::ZERO; columns], vec![bf16::ZERO; columns]] }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(columns: usize) -> usize {
        columns * (size_of::<f32>() + 2 * size_of::<bf16>())
    }
}

/// A plane to pack.
pub(super) struct Plane<'a, 'b> {
    /// Where from.
    pub source: &'a Source<'b, bf16>,
    /// What of the plane.
    pub window: &'a Window,
    /// Item of the batch.
    pub item: usize,
    /// Channels, numbered over all groups.
    pub channels: Range<usize>,
    /// The plane.
    pub depth: usize,
    /// From one packed channel, or pair of channels, to the next.
    pub stride: usize,
    /// Room for a row.
    pub room: &'a mut RowRoom,
}

/// Part of a row of a channel: as it is stored, or what the prologue makes of it.
#[inline(always)]
fn row<'a, S: Simd>(
    simd: S,
    source: &'a Source<'_, bf16>,
    place: [usize; 4],
    columns: &Range<usize>,
    (exact, rounded): (&mut [f32], &'a mut [bf16]),
) -> &'a [bf16] {
    if source.input.prologue.is_none() {
        return source.plain(place, columns);
    }
    let (exact, rounded) = (&mut exact[..columns.len()], &mut rounded[..columns.len()]);
    source.read(simd, place, columns.clone(), exact);
    bf16::narrow(exact, rounded);
    rounded
}

/// Packs pairs of channels: `[pair of channels][row phase][column phase][row][column]`. The partner of an odd last channel is zero.
pub(super) struct FillPairs<'a, 'b> {
    pub plane: Plane<'a, 'b>,
    pub target: &'a mut [Pair],
}

impl WithSimd for FillPairs<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plane: Plane { source, window, item, channels, depth, stride, room }, target } = self;
        let (columns, before) = window.columns_inside(source.size[2]);
        if columns.is_empty() {
            return;
        }
        let RowRoom { exact, rounded: [low_room, high_room] } = room;
        for (channel, target) in channels.clone().step_by(2).zip(target.chunks_mut(stride)) {
            let partner = (channel + 1 < channels.end).then_some(channel + 1);
            for (at, first) in rows(window, source.size[1]) {
                for next in [channel + 2, channel + 3] {
                    if next < channels.end {
                        source.prefetch([item, next, depth, at], &columns);
                    }
                }
                let low = row(simd, source, [item, channel, depth, at], &columns, (exact, low_room));
                let high = match partner {
                    Some(partner) => row(simd, source, [item, partner, depth, at], &columns, (exact, high_room)),
                    None => {
                        high_room[..low.len()].fill(bf16::ZERO);
                        &high_room[..low.len()]
                    }
                };
                match window.step[1] {
                    1 => halves::pairs(simd, low, high, &mut target[first + before..]),
                    2 => {
                        for (start, place) in column_phases::<2>(window, before) {
                            let [low, high] = [low, high].map(|values| &values[start.min(values.len())..]);
                            halves::second_pairs(simd, low, high, &mut target[first + place..]);
                        }
                    }
                    step => {
                        for (start, place) in column_phases::<0>(window, before) {
                            let values = low.iter().zip(high).skip(start).step_by(step);
                            let target = target[first + place..].iter_mut();
                            target.zip(values).for_each(|(to, (low, high))| *to = pair(*low, *high));
                        }
                    }
                }
            }
        }
    }
}

/// Packs channels: `[channel][row phase][column phase][row][column]`.
pub(super) struct FillChannels<'a, 'b> {
    pub plane: Plane<'a, 'b>,
    pub target: &'a mut [bf16],
}

impl WithSimd for FillChannels<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plane: Plane { source, window, item, channels, depth, stride, room }, target } = self;
        let (columns, before) = window.columns_inside(source.size[2]);
        if columns.is_empty() {
            return;
        }
        let RowRoom { exact, rounded: [rounded, _] } = room;
        for (channel, target) in channels.clone().zip(target.chunks_mut(stride)) {
            for (at, first) in rows(window, source.size[1]) {
                if channel + 1 < channels.end {
                    source.prefetch([item, channel + 1, depth, at], &columns);
                }
                let values = row(simd, source, [item, channel, depth, at], &columns, (exact, rounded));
                match window.step[1] {
                    1 => halves::values(simd, values, &mut target[first + before..]),
                    2 => {
                        for (start, place) in column_phases::<2>(window, before) {
                            let values = &values[start.min(values.len())..];
                            halves::second_values(simd, values, &mut target[first + place..]);
                        }
                    }
                    step => {
                        for (start, place) in column_phases::<0>(window, before) {
                            let values = values.iter().skip(start).step_by(step);
                            target[first + place..].iter_mut().zip(values).for_each(|(to, value)| *to = *value);
                        }
                    }
                }
            }
        }
    }
}

/// Rows of the volume that a window reads, each with the place where its first column phase begins in a packed channel.
#[inline(always)]
fn rows(window: &Window, height: usize) -> impl Iterator<Item = (usize, usize)> {
    let phase_len = window.size[0] * window.size[1];
    let places = (0..window.phases[0]).flat_map(move |phase| (0..window.size[0]).map(move |index| (phase, index)));
    places.filter_map(move |(phase, index)| {
        let row = usize::try_from(window.first[0] + (index * window.step[0] + phase) as isize).ok()?;
        (row < height).then_some((row, phase * window.phases[1] * phase_len + index * window.size[1]))
    })
}

/// Phases of the columns of a row, with `before` zeros: the first column inside of the volume that belongs to it, and the place of that,
/// counted from the row's first. `STEP` is the window's step, or zero where nobody knows it beforehand: divisions take longer than a short row.
#[inline(always)]
fn column_phases<const STEP: usize>(window: &Window, before: usize) -> impl Iterator<Item = (usize, usize)> {
    let step = if STEP > 0 { STEP } else { window.step[1] };
    let phase_len = window.size[0] * window.size[1];
    (0..window.phases[1]).map(move |phase| {
        let start = (phase + step - before % step) % step;
        (start, phase * phase_len + (before + start) / step)
    })
}

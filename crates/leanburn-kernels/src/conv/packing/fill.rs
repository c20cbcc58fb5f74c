//! Fills a packed plane with the rows of a volume.
//!
//! Only what lies inside of the volume is written: the zeros around it are the same for every plane of a tile, and are
//! written once.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::Stored;
use crate::conv::packing::planes::{Affine, Source, Window, prepare, prepared};
use crate::simd::{halves, load_part, store_part};

/// Most lanes of a vector.
const LANES: usize = crate::conv::tiles::tap_sums::LANES;

/// Packs the values of one plane into the ring: float32, prologue applied.
pub(crate) struct FillPlane<'a, 'b, E> {
    /// Where from.
    pub source: &'a Source<'b, E>,
    /// What of the plane.
    pub window: &'a Window,
    /// Item of the batch.
    pub item: usize,
    /// Channels, numbered over all groups.
    pub channels: Range<usize>,
    /// The plane.
    pub depth: usize,
    /// Room for a row.
    pub room: &'a mut Vec<f32>,
    /// `[channel][row phase][column phase][row][column]`; what lies outside of the volume is left as it is.
    pub target: &'a mut [f32],
}

impl<E: Stored> WithSimd for FillPlane<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { source, window, item, channels, depth, room, target } = self;
        let (columns, before) = window.columns_inside(source.size[2]);
        if columns.is_empty() {
            return;
        }
        room.resize(columns.len(), 0.0);
        let phase_len = window.size[0] * window.size[1];
        let last = channels.end.saturating_sub(1);
        for (channel, target) in channels.zip(target.chunks_exact_mut(window.channel_len())) {
            let prologue = source.affine(simd, [item, channel, depth, 0]);
            for row_phase in 0..window.phases[0] {
                let target = &mut target[row_phase * window.phases[1] * phase_len..][..window.phases[1] * phase_len];
                for index in 0..window.size[0] {
                    let row = window.first[0] + (index * window.step[0] + row_phase) as isize;
                    if row < 0 || row >= source.size[1] as isize {
                        continue;
                    }
                    if channel < last {
                        source.prefetch([item, channel + 1, depth, row as usize], &columns);
                    }
                    let values = source.plain([item, channel, depth, row as usize], &columns);
                    let values = match E::as_f32(values) {
                        Some(values) => values,
                        None => {
                            E::widen(values, room);
                            &room[..]
                        }
                    };
                    let row = RowPlace { before, step: window.step[1], phase_len, first: index * window.size[1] };
                    row.fill(simd, values, &prologue, target);
                }
            }
        }
    }
}

/// Where a row goes, in the phases of its columns.
struct RowPlace {
    /// Packed columns before the first that is inside of the volume.
    before: usize,
    /// Column phases.
    step: usize,
    /// From one phase to the next.
    phase_len: usize,
    /// The row's first element in each phase.
    first: usize,
}

impl RowPlace {
    /// Where column `column` of the volume's goes, of the `count` that are `step` apart; nowhere if its phase is not
    /// packed.
    #[inline(always)]
    fn of<'t>(&self, target: &'t mut [f32], column: usize, count: usize) -> &'t mut [f32] {
        let place = self.before + column;
        let start = place % self.step * self.phase_len + self.first + place / self.step;
        if place % self.step * self.phase_len < target.len() { &mut target[start..][..count] } else { &mut [] }
    }

    #[inline(always)]
    fn fill<S: Simd>(&self, simd: S, values: &[f32], prologue: &Option<Affine<S>>, target: &mut [f32]) {
        match self.step {
            1 => prepare(simd, prologue, values, self.of(target, 0, values.len())),
            2 => self.fill_pairs(simd, values, prologue, target),
            step => {
                for start in (0..values.len()).step_by(S::F32_LANES) {
                    let mut part = [0.0; LANES];
                    let len = S::F32_LANES.min(values.len() - start);
                    let vector = load_part(simd, &values[start..][..len]);
                    store_part(simd, &mut part[..len], prepared(simd, prologue, vector));
                    for (column, value) in part[..len].iter().enumerate() {
                        self.of(target, start + column, 1).iter_mut().for_each(|target| *target = *value);
                    }
                }
                debug_assert!(step > 2);
            }
        }
    }

    /// Two phases: the columns with even and with odd numbers.
    #[inline(always)]
    fn fill_pairs<S: Simd>(&self, simd: S, values: &[f32], prologue: &Option<Affine<S>>, target: &mut [f32]) {
        let lanes = S::F32_LANES;
        let (zero, one) = target.split_at_mut(self.phase_len);
        // The phase of the first column of those inside of the volume, and of the second.
        let mut phases = if self.before.is_multiple_of(2) { [zero, one] } else { [one, zero] };
        for (number, phase) in phases.iter_mut().enumerate() {
            let packed = if phase.is_empty() { 0 } else { (values.len() + 1 - number) / 2 };
            let start = if packed == 0 { 0 } else { self.first + (self.before + number) / 2 };
            *phase = &mut std::mem::take(phase)[start..][..packed];
        }
        let [zero, one] = &mut phases;
        let whole = (values.len() / 2).min(zero.len()).min(one.len()) / lanes;
        let (vectors, _) = S::as_simd_f32s(values);
        let targets = S::as_mut_simd_f32s(zero).0.iter_mut().zip(S::as_mut_simd_f32s(one).0);
        for (pair, (zero, one)) in vectors.chunks_exact(2).zip(targets) {
            [*zero, *one] = halves(simd, prepared(simd, prologue, pair[0]), prepared(simd, prologue, pair[1]));
        }
        for (index, part) in values.chunks(2 * lanes).enumerate().skip(whole) {
            let (low, high) = part.split_at(lanes.min(part.len()));
            let [low, high] = [load_part(simd, low), load_part(simd, high)];
            let parts = halves(simd, prepared(simd, prologue, low), prepared(simd, prologue, high));
            for (phase, vector) in phases.iter_mut().zip(parts) {
                let end = phase.len().min((index + 1) * lanes);
                let start = end.min(index * lanes);
                store_part(simd, &mut phase[start..end], vector);
            }
        }
    }
}

//! Writes finished rows: bias, residual, rounding.

use std::mem::MaybeUninit;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::Stored;
use crate::conv::operands::{Output, Residual};
use crate::conv::packing::ahead::Part;
use crate::conv::tiles::tap_sums::LANES;
use crate::conv::tiles::transpose::transposed;
use crate::simd::{interleaved, load, load_part, load_part_from, prefetch_near, store, store_part_to};
use crate::size::reach;

/// A volume that many tasks write to, each its own rows.
#[derive(Debug)]
pub(crate) struct SharedOutput<'a, E> {
    values: *mut MaybeUninit<E>,
    pub len: usize,
    pub bias: Option<&'a [f32]>,
    pub residual: Residual<'a, E>,
}

// SAFETY: the pointer stands for an exclusive borrow of values that are `Send` and `Sync`; writers promise to
// `SharedOutput::row` that no two of them have the same row at the same time.
unsafe impl<E: Stored> Sync for SharedOutput<'_, E> {}

impl<'a, E: Stored> SharedOutput<'a, E> {
    /// Shares memory that is not initialised: nothing stands in place of the result.
    pub(crate) fn uninit(values: &'a mut [MaybeUninit<E>], bias: Option<&'a [f32]>, residual: Option<&'a [E]>) -> Self {
        let residual = residual.map_or(Residual::None, Residual::Of);
        Self { values: values.as_mut_ptr(), len: values.len(), bias, residual }
    }

    /// Where part of a row from element `first` on is, what is added to all of it, and the volume that is added, if there is one.
    #[inline(always)]
    pub(crate) fn place(
        &self,
        channel: usize,
        first: usize,
        len: usize,
    ) -> (*mut MaybeUninit<E>, f32, Option<*const E>) {
        assert!(first <= self.len && len <= self.len - first, "a row leaves the output");
        let target = self.values.wrapping_add(first);
        let residual = match self.residual {
            Residual::None => None,
            Residual::InPlace => Some(target.cast_const().cast()),
            Residual::Of(volume) => Some(volume[first..first + len].as_ptr()),
        };
        // Adding a negative zero changes nothing.
        (target, self.bias.map_or(-0.0, |bias| bias[channel]), residual)
    }

    /// Finishes part of a row: adds the channel's bias and the residual to `sums`, and writes them from element `first`
    /// of the volume on.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes these elements at the same time.
    #[inline(always)]
    pub(crate) unsafe fn finish<S: Simd>(&self, simd: S, channel: usize, first: usize, sums: &[f32]) {
        // SAFETY: the elements are float32 where there are vectors; as the caller says, nobody else has these now.
        unsafe {
            if E::as_f32(&[]).is_none() {
                return self.finish_each(channel, first, sums);
            }
            let (vectors, rest) = S::as_simd_f32s(sums);
            self.finish_vectors(simd, channel, first, vectors);
            if !rest.is_empty() {
                self.finish_part(simd, channel, first + sums.len() - rest.len(), rest);
            }
        }
    }

    /// Finishes less than a vector of a row, in a volume of float32.
    ///
    /// # Safety
    ///
    /// As for [`Self::finish_vectors`].
    #[inline(always)]
    unsafe fn finish_part<S: Simd>(&self, simd: S, channel: usize, first: usize, sums: &[f32]) {
        let (target, bias, residual) = self.place(channel, first, sums.len());
        let sum = simd.add_f32s(load_part(simd, sums), simd.splat_f32s(bias));
        // SAFETY: `place` has checked the last of them, in the residual too; nobody else has these elements now.
        unsafe {
            let sum = match residual {
                None => sum,
                Some(residual) => simd.add_f32s(sum, load_part_from(simd, residual.cast(), sums.len())),
            };
            store_part_to(simd, target.cast(), sums.len(), sum);
        }
    }

    /// Finishes part of a row, element by element.
    ///
    /// # Safety
    ///
    /// As for [`Self::finish`].
    #[inline(always)]
    unsafe fn finish_each(&self, channel: usize, first: usize, sums: &[f32]) {
        let (target, bias, _) = self.place(channel, first, sums.len());
        // SAFETY: inside of the volume, whose borrow `self` holds; nobody else has these elements now.
        let target = unsafe { std::slice::from_raw_parts_mut(target, sums.len()) };
        let rows = target.iter_mut().zip(sums);
        match self.residual {
            Residual::None => rows.for_each(|(target, sum)| _ = target.write(E::from_f32(sum + bias))),
            Residual::InPlace => rows.for_each(|(target, sum)| {
                // SAFETY: only the values of an `Output` have a residual in place, and they are initialised.
                let residual = unsafe { target.assume_init() };
                target.write(E::from_f32(sum + bias + residual.to_f32()));
            }),
            Residual::Of(volume) => {
                let residual = &volume[first..first + sums.len()];
                rows.zip(residual).for_each(|((target, sum), residual)| {
                    target.write(E::from_f32(sum + bias + residual.to_f32()));
                });
            }
        }
    }

    /// Finishes whole vectors of a row, in a volume of float32.
    ///
    /// # Safety
    ///
    /// The elements are float32, and no other thread reads or writes these at the same time.
    #[inline(always)]
    unsafe fn finish_vectors<S: Simd>(&self, simd: S, channel: usize, first: usize, sums: &[S::f32s]) {
        let (target, bias, residual) = self.place(channel, first, sums.len() * S::F32_LANES);
        let bias = simd.splat_f32s(bias);
        for (index, sum) in sums.iter().enumerate() {
            let (place, sum) = (index * S::F32_LANES, simd.add_f32s(*sum, bias));
            // SAFETY: `place` has checked the last of them, in the residual too; nobody else has these elements now.
            unsafe {
                let sum = match residual {
                    None => sum,
                    Some(residual) => simd.add_f32s(sum, load::<S>(residual.cast::<f32>().add(place))),
                };
                store::<S>(target.cast::<f32>().add(place), sum);
            }
        }
    }

    /// [`Self::finish_vectors`] of `ROWS` channels, from `channel` on, that are `stride` elements apart.
    ///
    /// # Safety
    ///
    /// As for [`Self::finish_vectors`].
    #[inline(always)]
    pub(crate) unsafe fn finish_rows<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        channel: usize,
        first: usize,
        stride: usize,
        sums: &[[S::f32s; VECTORS]; ROWS],
    ) {
        // What is the same for all rows is found once, and what a row does is little enough to be written out for each.
        let (target, _, residual) = self.place(channel, first, reach(ROWS, stride, VECTORS * S::F32_LANES));
        let bias = self.bias.map(|bias| &bias[channel..channel + ROWS]);
        for (row, sums) in sums.iter().enumerate() {
            let bias = simd.splat_f32s(bias.map_or(-0.0, |bias| bias[row]));
            for (vector, sum) in sums.iter().enumerate() {
                let (place, mut sum) = (row * stride + vector * S::F32_LANES, simd.add_f32s(*sum, bias));
                // SAFETY: `place` has checked the last of them, in the residual too; nobody else has these elements now.
                unsafe {
                    if let Some(residual) = residual {
                        sum = simd.add_f32s(sum, load::<S>(residual.cast::<f32>().add(place)));
                    }
                    store::<S>(target.cast::<f32>().add(place), sum);
                }
            }
        }
    }

    /// The rows of a plane, from element `first` on, in channels that are `channels[1]` elements apart; for [`Ahead`](super::ahead::Ahead).
    pub(crate) fn part(&self, first: usize, len: usize, rows: [usize; 2], channels: [usize; 2]) -> Part {
        Part::new(self.values.wrapping_add(first), len, rows, channels)
    }

    /// Asks for part of a row, to be written soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, first: usize, len: usize) {
        for place in (first..first + len).step_by(64 / size_of::<E>()) {
            prefetch_near(self.values.wrapping_add(place).cast_const());
        }
    }
}

impl<'a, E: Stored> From<Output<'a, E>> for SharedOutput<'a, E> {
    fn from(Output { values, bias, residual }: Output<'a, E>) -> Self {
        // Only whole values are written, so that all stay initialised.
        Self { values: values.as_mut_ptr().cast(), len: values.len(), bias, residual }
    }
}

/// Writes the sums of a tile for one output channel to the volume. Index 0 is for rows, 1 for columns.
pub(crate) struct TileRows<'a, 'b, E> {
    /// Where to.
    pub output: &'a SharedOutput<'b, E>,
    /// Number of the channel among all groups.
    pub channel: usize,
    /// Element of the volume at which the plane begins.
    pub plane: usize,
    /// Rows and columns of the plane.
    pub size: [usize; 2],
    /// First index of the tile.
    pub first: [usize; 2],
    /// Indices of the tile.
    pub tile: [usize; 2],
    /// Phases of the output: output `index * phases + phase`.
    pub phases: [usize; 2],
    /// `[row phase][column phase][..]`, flat positions, from the channel's first on.
    pub sums: &'a mut [f32],
    /// From one phase to the next.
    pub phase_stride: usize,
    /// From the first position of one row to that of the next.
    pub row_stride: usize,
    /// Room for a row of the tile, of all phases, in whole vectors; so are the sums of the last row.
    pub room: &'a mut [f32],
}

impl<E: Stored> WithSimd for TileRows<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: tiles, chunks, channels and items are each one task's, so these elements are this task's.
        unsafe {
            match (E::as_f32(&[]).is_some(), self.phases[1]) {
                (true, 1) => self.write::<S, 1>(simd),
                (true, 2) => self.write::<S, 2>(simd),
                _ => self.each(
                    #[inline(always)]
                    |output, channel, first, sums| output.finish(simd, channel, first, sums),
                ),
            }
        }
    }
}

impl<E: Stored> TileRows<'_, '_, E> {
    /// Writes the rows of one column phase, or of two, to a volume of float32: rows are short, and what is the same for all of
    /// them is found once.
    ///
    /// # Safety
    ///
    /// The elements are float32, and no other thread reads or writes these at the same time.
    #[inline(always)]
    unsafe fn write<S: Simd, const PHASES: usize>(self, simd: S) {
        // Of two phases whole vectors are read.
        let read = |len: usize| if PHASES == 1 { len } else { self.tile[1].next_multiple_of(LANES) };
        let Some(rows) = self.placed(read) else { return };
        let bias = simd.splat_f32s(rows.bias);
        for row in 0..rows.count {
            let (sums, target, residual) = rows.row(row);
            let (target, residual) = (target.cast::<f32>(), residual.map(<*const E>::cast::<f32>));
            for column in (0..rows.len).step_by(PHASES * S::F32_LANES) {
                let mut vectors = [simd.splat_f32s(0.0); PHASES];
                for (phase, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: checked for the last row of the last phase.
                    *vector = unsafe {
                        let sums = sums.wrapping_add(phase * rows.phase_stride + column / PHASES);
                        let rest = if PHASES == 1 { S::F32_LANES.min(rows.len - column) } else { S::F32_LANES };
                        if rest == S::F32_LANES { load::<S>(sums) } else { load_part_from(simd, sums, rest) }
                    };
                }
                for (index, vector) in in_turn(simd, vectors).into_iter().enumerate() {
                    let place = column + index * S::F32_LANES;
                    let lanes = S::F32_LANES.min(rows.len.saturating_sub(place));
                    let (target, residual) = (target.wrapping_add(place), residual.map(|all| all.wrapping_add(place)));
                    let sum = simd.add_f32s(vector, bias);
                    // SAFETY: the last row was checked, in the residual too; nobody else has these elements now.
                    unsafe {
                        match residual {
                            None if lanes == S::F32_LANES => store::<S>(target, sum),
                            None => store_part_to(simd, target, lanes, sum),
                            Some(residual) => {
                                let sum = simd.add_f32s(sum, load_part_from(simd, residual, lanes));
                                store_part_to(simd, target, lanes, sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Rows of a tile, of one column phase or two, and where they go.
pub(crate) struct PlacedRows<E> {
    /// How many.
    pub count: usize,
    /// Values of each.
    pub len: usize,
    /// Added to all.
    pub bias: f32,
    /// From the sums of one column phase to those of the next.
    pub phase_stride: usize,
    phases: [usize; 2],
    sums: *const f32,
    row_stride: usize,
    target: *mut MaybeUninit<E>,
    residual: Option<*const E>,
    width: usize,
}

impl<E: Stored> PlacedRows<E> {
    /// A part of one row, from an element of the output on, see [`TileRows::each`].
    #[inline(always)]
    pub(crate) fn of_one(output: &SharedOutput<'_, E>, channel: usize, first: usize, sums: &[f32]) -> Self {
        let len = sums.len();
        let (target, bias, residual) = output.place(channel, first, len);
        let sums = sums.as_ptr();
        Self {
            count: 1,
            len,
            bias,
            phase_stride: 0,
            phases: [1; 2],
            sums,
            row_stride: len,
            target,
            residual,
            width: len,
        }
    }

    /// A row: its sums in the first column phase, its place, and what is added to it.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> (*const f32, *mut MaybeUninit<E>, Option<*const E>) {
        let [row_phases, column_phases] = self.phases;
        let first = row % row_phases * column_phases * self.phase_stride + row / row_phases * self.row_stride;
        let place = row * self.width;
        (
            self.sums.wrapping_add(first),
            self.target.wrapping_add(place),
            self.residual.map(|residual| residual.wrapping_add(place)),
        )
    }
}

impl<E: Stored> TileRows<'_, '_, E> {
    /// Where the rows go, of which there may be none; `read` says how many sums of a phase are read of a row of so many values.
    ///
    /// # Panics
    ///
    /// If the rows are not inside of the output, or there are fewer sums.
    #[inline(always)]
    pub(crate) fn placed(&self, read: impl Fn(usize) -> usize) -> Option<PlacedRows<E>> {
        let Self { output, channel, plane, size, first, tile, phases, phase_stride, row_stride, .. } = *self;
        let [rows, columns]: [Range<usize>; 2] = std::array::from_fn(|axis| {
            first[axis] * phases[axis]..((first[axis] + tile[axis]) * phases[axis]).min(size[axis])
        });
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        let (start, len) = (plane + rows.start * size[1] + columns.start, columns.len());
        let (target, bias, residual) = output.place(channel, start, reach(rows.len(), size[1], len));
        let last = reach(phases.iter().product(), phase_stride, reach(tile[0], row_stride, read(len)));
        assert!(last <= self.sums.len(), "the sums are fewer than those of the tile");
        let sums = self.sums.as_ptr();
        let count = rows.len();
        Some(PlacedRows { count, len, bias, phase_stride, phases, sums, row_stride, target, residual, width: size[1] })
    }
}

impl<'b, E: Stored> TileRows<'_, 'b, E> {
    /// Gives the sums of each part of a row of the output, and the element at which it begins.
    #[inline(always)]
    pub(crate) fn each(self, write: impl Fn(&SharedOutput<'b, E>, usize, usize, &[f32])) {
        let [row_phases, column_phases] = self.phases;
        let start = self.first[1] * column_phases;
        let end = ((self.first[1] + self.tile[1]) * column_phases).min(self.size[1]);
        let row = self.room;
        for index in 0..self.tile[0] {
            for row_phase in 0..row_phases {
                let place = (self.first[0] + index) * row_phases + row_phase;
                if place >= self.size[0] {
                    continue;
                }
                let first = row_phase * column_phases * self.phase_stride + index * self.row_stride;
                let sums = if column_phases == 1 {
                    &mut self.sums[first..][..end - start]
                } else if column_phases == 2 {
                    let len = self.tile[1].next_multiple_of(LANES);
                    let [even, odd] = [first, first + self.phase_stride].map(|first| &self.sums[first..][..len]);
                    let (pairs, _) = row[..2 * len].as_chunks_mut::<2>();
                    pairs.iter_mut().zip(even.iter().zip(odd)).for_each(|(pair, (even, odd))| *pair = [*even, *odd]);
                    &mut row[..end - start]
                } else {
                    for phase in 0..column_phases {
                        let sums = &self.sums[first + phase * self.phase_stride..][..self.tile[1]];
                        let places = row[phase..].iter_mut().step_by(column_phases);
                        places.zip(sums).for_each(|(place, sum)| *place = *sum);
                    }
                    &mut row[..end - start]
                };
                write(self.output, self.channel, self.plane + place * self.size[1] + start, sums);
            }
        }
    }
}

/// The lanes of one vector, or of two in turn.
#[inline(always)]
fn in_turn<S: Simd, const PHASES: usize>(simd: S, mut phases: [S::f32s; PHASES]) -> [S::f32s; PHASES] {
    if let [even, odd] = &mut phases[..] {
        [*even, *odd] = interleaved(simd, *even, *odd);
    }
    phases
}

/// Sums with the channels of a position together, `[position][channels]`, to be written to `[channel][position]`.
pub(crate) struct ByChannel<'a> {
    /// Channels.
    pub channels: usize,
    /// Positions.
    pub positions: usize,
    pub sums: &'a [f32],
    /// From one channel to the next.
    pub stride: usize,
    pub target: &'a mut [f32],
}

impl WithSimd for ByChannel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for position in (0..self.positions).step_by(LANES) {
            let rows = LANES.min(self.positions - position);
            for first in (0..self.channels).step_by(LANES) {
                let columns = LANES.min(self.channels - first);
                let sums = &self.sums[position * self.channels + first..];
                let block = transposed(simd, sums, self.channels, [rows, columns]);
                for (channel, values) in block.iter().enumerate().take(columns) {
                    // The stride is a multiple of sixteen: what is not defined is beyond the last position.
                    let target = &mut self.target[(first + channel) * self.stride + position..][..LANES];
                    target.copy_from_slice(values);
                }
            }
        }
    }
}

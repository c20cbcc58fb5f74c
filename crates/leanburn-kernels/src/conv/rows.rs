//! Writes finished rows: bias, residual, rounding.

use pulp::{Simd, WithSimd};

use super::{Output, Residual};
use crate::Element;

/// A volume that many tasks write to, each its own rows.
#[derive(Debug)]
pub(crate) struct SharedOutput<'a, E> {
    values: *mut E,
    len: usize,
    bias: Option<&'a [f32]>,
    residual: Residual<'a, E>,
}

// SAFETY: the pointer stands for an exclusive borrow of values that are `Send` and `Sync`; writers promise to
// `SharedOutput::row` that no two of them have the same row at the same time.
unsafe impl<E: Element> Sync for SharedOutput<'_, E> {}

impl<'a, E: Element> SharedOutput<'a, E> {
    /// Shares `output`.
    pub(crate) fn new(output: Output<'a, E>) -> Self {
        Self {
            values: output.values.as_mut_ptr(),
            len: output.values.len(),
            bias: output.bias,
            residual: output.residual,
        }
    }

    /// Finishes part of a row: adds the channel's bias and the residual to `sums`, and writes them from element `first`
    /// of the volume on.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes these elements at the same time.
    #[inline(always)]
    unsafe fn finish(&self, channel: usize, first: usize, sums: &mut [f32], residual: &mut [f32]) {
        assert!(first + sums.len() <= self.len);
        // SAFETY: inside of the volume, whose borrow `self` holds; nobody else has these elements now.
        let target = unsafe { std::slice::from_raw_parts_mut(self.values.add(first), sums.len()) };
        if let Some(bias) = self.bias {
            sums.iter_mut().for_each(|sum| *sum += bias[channel]);
        }
        let residual = &mut residual[..sums.len()];
        match self.residual {
            Residual::None => {}
            Residual::InPlace => E::widen(target, residual),
            Residual::Of(volume) => E::widen(&volume[first..first + sums.len()], residual),
        }
        if !matches!(self.residual, Residual::None) {
            sums.iter_mut().zip(residual).for_each(|(sum, residual)| *sum += *residual);
        }
        E::narrow(sums, target);
    }
}

/// The sums of a tile for one output channel, on their way to the volume. Index 0 is for rows, 1 for columns.
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
    /// From one position to the next.
    pub position_stride: usize,
    /// From one phase to the next.
    pub phase_stride: usize,
    /// From the first position of one row to that of the next.
    pub row_stride: usize,
    /// Room for two rows of the tile, of all phases.
    pub room: &'a mut [f32],
}

impl<E: Element> WithSimd for TileRows<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [row_phases, column_phases] = self.phases;
        let start = self.first[1] * column_phases;
        let end = ((self.first[1] + self.tile[1]) * column_phases).min(self.size[1]);
        let (row, residual) = self.room.split_at_mut(self.room.len() / 2);
        for index in 0..self.tile[0] {
            for row_phase in 0..row_phases {
                let place = (self.first[0] + index) * row_phases + row_phase;
                if place >= self.size[0] {
                    continue;
                }
                let first = row_phase * column_phases * self.phase_stride + index * self.row_stride;
                let sums = if column_phases == 1 && self.position_stride == 1 {
                    &mut self.sums[first..][..end - start]
                } else {
                    for phase in 0..column_phases {
                        let sums = self.sums[first + phase * self.phase_stride..].iter().step_by(self.position_stride);
                        let places = row[phase..].iter_mut().step_by(column_phases);
                        places.zip(sums).take(self.tile[1]).for_each(|(place, sum)| *place = *sum);
                    }
                    &mut row[..end - start]
                };
                // SAFETY: tiles, chunks, channels and items are each one task's, so these columns are this task's.
                unsafe { self.output.finish(self.channel, self.plane + place * self.size[1] + start, sums, residual) };
            }
        }
    }
}

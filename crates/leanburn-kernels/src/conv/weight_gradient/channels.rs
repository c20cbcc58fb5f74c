//! The steps of a task of the weight gradient whose lanes are output channels.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::Stored;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::tiles::tap_sums::LANES;
use crate::conv::tiles::transpose::transposed;
use crate::conv::weight_gradient::outer_products::{ColumnTiles, OuterProducts, Tiles};
use crate::conv::weight_gradient::plan::March;
use crate::conv::weight_gradient::task::WeightTask;

/// Positions that are read at a time.
const POSITIONS: usize = 128;

impl WeightTask<'_> {
    /// Packs the gradient's planes of this step, output channels side by side.
    pub(super) fn pack_channels<E: Stored>(&mut self, source: &Source<'_, E>, step: &March) {
        let tiles = self.arch.dispatch(Tiles(self.channels[1]));
        let positions = self.plane_positions(step);
        for (index, depth) in step.depths.clone().enumerate() {
            self.arch.dispatch(PackChannels {
                source,
                place: [step.item, self.first[1], depth, step.row],
                channels: self.channels[1],
                positions,
                tiles,
                first: index * positions,
                all: step.depths.len() * positions,
                target: &mut self.scratch.gradient,
            });
        }
    }

    /// Adds the products of this step's planes to the sums.
    pub(super) fn add_channels(&mut self, window: &Window, step: &March) {
        let [kernel, height, width] = self.plan.shape.kernel;
        let [_, row_step, column_step] = self.plan.shape.stride;
        let tiles = self.arch.dispatch(Tiles(self.channels[1]));
        let slot_len = self.channels[0] * window.channel_len();
        let plane_positions = self.plane_positions(step);
        let rows = plane_positions / self.plan.output[2];
        for kernel_depth in 0..kernel {
            let (mut positions, mut first) = (Vec::with_capacity(self.plan.positions()), None);
            for (index, depth) in step.depths.clone().enumerate() {
                let Some(depth) = self.plan.input_depth(depth, kernel_depth) else {
                    continue;
                };
                first.get_or_insert(index * plane_positions);
                let slot = depth % self.scratch.held.len() * slot_len;
                for row in 0..rows {
                    let row = slot + row * row_step * window.size[1];
                    positions.extend((0..self.plan.output[2]).map(|column| row + column * column_step));
                }
            }
            self.arch.dispatch(OuterProducts {
                input: &self.scratch.planes,
                rows: &self.rows,
                targets: &self.targets,
                positions: &positions,
                gradient: &self.scratch.gradient,
                gradient_positions: step.depths.len() * plane_positions,
                first: first.unwrap_or(0),
                tiles,
                sums: &mut self.scratch.sums[kernel_depth * height * width * tiles.columns()..],
            });
        }
    }

    /// Adds the sums to the target, or overwrites it.
    pub(super) fn add_up_channels(&mut self, overwrite: bool) {
        let columns = self.arch.dispatch(Tiles(self.channels[1])).columns();
        self.arch.dispatch(AddUp { sums: &mut self.scratch.sums, columns, overwrite, target: &mut self.target });
    }

    /// Positions of this step's tile in one plane.
    fn plane_positions(&self, step: &March) -> usize {
        self.plan.rows.min(self.plan.output[1] - step.row) * self.plan.output[2]
    }
}

/// Adds `sums`, `[row][column]`, to the columns, or overwrites those, and sets the sums to zero.
struct AddUp<'a, 'b> {
    sums: &'a mut [f32],
    columns: usize,
    overwrite: bool,
    target: &'a mut [&'b mut [f32]],
}

impl WithSimd for AddUp<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, columns, overwrite, target } = self;
        for (part, target) in target.chunks_mut(LANES).enumerate() {
            for (group, sums) in sums.chunks(LANES * columns).enumerate() {
                let rows = sums.len() / columns;
                let block = transposed(simd, &sums[part * LANES..], columns, [rows, target.len()]);
                for (column, sums) in target.iter_mut().zip(&block) {
                    let column = &mut column[group * LANES..][..rows];
                    match column.first_chunk_mut::<LANES>() {
                        Some(whole) => add(whole, sums, overwrite),
                        None => add(column, &sums[..rows], overwrite),
                    }
                }
            }
        }
        sums.fill(0.0);
    }
}

/// Adds the sums to the target, or to zeros.
#[inline(always)]
fn add(target: &mut [f32], sums: &[f32], overwrite: bool) {
    for (target, sum) in target.iter_mut().zip(sums) {
        *target = if overwrite { 0.0 } else { *target } + sum;
    }
}

/// Packs part of one plane of the gradient, `[tile][position][lane]`.
struct PackChannels<'a, 'b, E> {
    source: &'a Source<'b, E>,
    /// Item, first channel, depth and row.
    place: [usize; 4],
    channels: usize,
    /// Positions of the part, which are neighbours in the volume.
    positions: usize,
    tiles: ColumnTiles,
    /// Number of the first position among `all` of the target.
    first: usize,
    all: usize,
    target: &'a mut [f32],
}

impl<E: Stored> WithSimd for PackChannels<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for tile in 0..self.tiles.tiles {
            let columns = self.tiles.tile(tile);
            for start in (0..self.positions).step_by(POSITIONS) {
                let positions = start..self.positions.min(start + POSITIONS);
                for column in columns.clone().step_by(LANES) {
                    self.pack(simd, &columns, column..columns.end.min(column + LANES), positions.clone());
                }
            }
        }
    }
}

impl<'a, E: Stored> PackChannels<'a, '_, E> {
    /// Packs some columns, at most a block, of those of a tile.
    #[inline(always)]
    fn pack<S: Simd>(&mut self, simd: S, tile: &Range<usize>, columns: Range<usize>, positions: Range<usize>) {
        let (count, width, start) = (columns.len(), tile.len(), positions.start);
        let mut values = [0.0; LANES * POSITIONS];
        let (values, stride) = match self.plain(&columns) {
            Some(values) => (&values[start..], self.source.size.iter().product()),
            None => {
                self.read(simd, columns.clone(), positions.clone(), &mut values);
                (&values[..], POSITIONS)
            }
        };
        let target = &mut self.target[tile.start * self.all..][self.first * width..];
        for position in positions.clone().step_by(LANES) {
            let size = [count, LANES.min(positions.end - position)];
            let block = transposed(simd, &values[position - start..], stride, size);
            let target = target[position * width..].chunks_exact_mut(width);
            for (target, block) in target.zip(&block[..size[1]]) {
                let target = &mut target[columns.start - tile.start..][..count];
                match target.first_chunk_mut::<LANES>() {
                    Some(whole) => *whole = *block,
                    None => target.copy_from_slice(&block[..count]),
                }
            }
        }
    }

    /// The values from the first of these columns on, where they can be used as they stand in the volume.
    #[inline(always)]
    fn plain(&self, columns: &Range<usize>) -> Option<&'a [f32]> {
        let (source, [item, channel, depth, row]) = (self.source, self.place);
        if source.input.prologue.is_some() || columns.end > self.channels {
            return None;
        }
        E::as_f32(&source.input.values[source.row([item, channel + columns.start, depth, row]).1..])
    }

    /// Reads some columns, `POSITIONS` apart; those behind the last channel are zero.
    #[inline(always)]
    fn read<S: Simd>(&self, simd: S, columns: Range<usize>, positions: Range<usize>, target: &mut [f32]) {
        let [item, channel, depth, row] = self.place;
        for (column, target) in columns.zip(target.chunks_exact_mut(POSITIONS)) {
            let target = &mut target[..positions.len()];
            match column < self.channels {
                true => self.source.read(simd, [item, channel + column, depth, row], positions.clone(), target),
                false => target.fill(0.0),
            }
        }
    }
}

//! The steps of a task of the weight gradient whose lanes are output channels.

use pulp::{Simd, WithSimd};

use super::{
    outer_products::{ColumnTiles, OuterProducts, Tiles},
    pack::{Source, Window},
    tile::LANES,
    transpose::transposed,
    weight_plan::March,
    weight_task::WeightTask,
};
use crate::Element;

/// Positions that are read at a time.
const POSITIONS: usize = 128;

impl WeightTask<'_> {
    /// Packs the gradient's planes of this step, output channels side by side.
    pub(super) fn pack_channels<E: Element>(&mut self, source: &Source<'_, E>, step: &March) {
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
                target: &mut self.gradient,
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
                let Some(depth) = self.input_depth(depth, kernel_depth) else { continue };
                first.get_or_insert(index * plane_positions);
                let slot = depth % self.held.len() * slot_len;
                for row in 0..rows {
                    let row = slot + row * row_step * window.size[1];
                    positions.extend((0..self.plan.output[2]).map(|column| row + column * column_step));
                }
            }
            let target =
                |row: usize| (row / (height * width) * kernel + kernel_depth) * height * width + row % (height * width);
            let targets: Vec<usize> = (0..self.rows.len()).map(target).collect();
            self.arch.dispatch(OuterProducts {
                input: &self.planes,
                rows: &self.rows,
                targets: &targets,
                positions: &positions,
                gradient: &self.gradient,
                gradient_positions: step.depths.len() * plane_positions,
                first: first.unwrap_or(0),
                tiles,
                sums: &mut self.sums,
            });
        }
    }

    /// Adds the sums to the target.
    pub(super) fn add_up_channels(&mut self) {
        let columns = self.arch.dispatch(Tiles(self.channels[1])).columns();
        self.arch.dispatch(AddUp { sums: &mut self.sums, columns, target: &mut self.target });
    }

    /// Positions of this step's tile in one plane.
    fn plane_positions(&self, step: &March) -> usize {
        self.plan.rows.min(self.plan.output[1] - step.row) * self.plan.output[2]
    }
}

/// Adds `sums`, `[row][column]`, to the columns and sets them to zero.
struct AddUp<'a, 'b> {
    sums: &'a mut [f32],
    columns: usize,
    target: &'a mut [&'b mut [f32]],
}

impl WithSimd for AddUp<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, columns, target } = self;
        for (group, sums) in sums.chunks_mut(LANES * columns).enumerate() {
            let rows = sums.len() / columns;
            for (part, target) in target.chunks_mut(LANES).enumerate() {
                let block = transposed(simd, &sums[part * LANES..], columns, [rows, target.len()]);
                for (column, sums) in target.iter_mut().zip(&block) {
                    let column = &mut column[group * LANES..][..rows];
                    column.iter_mut().zip(sums).for_each(|(target, sum)| *target += sum);
                }
            }
            sums.fill(0.0);
        }
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

impl<E: Element> WithSimd for PackChannels<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { source, place: [item, channel, depth, row], channels, positions, tiles, first, all, target } = self;
        let mut values = [0.0; LANES * POSITIONS];
        for tile in 0..tiles.tiles {
            let columns = tiles.tile(tile);
            let width = columns.len();
            let target = &mut target[columns.start * all..][first * width..][..positions * width];
            for start in (0..positions).step_by(POSITIONS) {
                let end = positions.min(start + POSITIONS);
                for column in columns.clone().step_by(LANES) {
                    let count = LANES.min(columns.end - column);
                    for (index, values) in values.chunks_exact_mut(POSITIONS).take(count).enumerate() {
                        let (column, values) = (column + index, &mut values[..end - start]);
                        if column < channels {
                            source.read(simd, [item, channel + column, depth, row], start..end, values);
                        } else {
                            values.fill(0.0);
                        }
                    }
                    for position in (start..end).step_by(LANES) {
                        let size = [count, LANES.min(end - position)];
                        let block = transposed(simd, &values[position - start..], POSITIONS, size);
                        let target = target[position * width..].chunks_exact_mut(width);
                        for (target, block) in target.zip(&block[..size[1]]) {
                            target[column - columns.start..][..count].copy_from_slice(&block[..count]);
                        }
                    }
                }
            }
        }
    }
}

//! The sums of a tile's output planes, from the packed input, by register tiles of either kind.

use std::ops::Range;

use crate::Stored;
use crate::conv::direct::pass::{Pass, Scratch, Tile, positions};
use crate::conv::tiles::row_sums::{RowSums, rows_together};
use crate::conv::tiles::tap_sums::{Block, LANES, Registers, Tap, TapSums};

/// Floats of a block's weights that stay close while the planes are gone through (256 KiB).
const CLOSE_WEIGHTS: usize = 64 * 1024;

impl<E: Stored> Pass<'_, '_, E> {
    /// The sums of one output plane for one block of output channels.
    pub(super) fn plane_by_positions(
        &self,
        scratch: &mut Scratch<'_, E>,
        tile: &Tile,
        depth: usize,
        block: &Block,
        kept: usize,
    ) {
        for phase in 0..self.phases().iter().product() {
            let Scratch { ring, sums, taps, ahead, .. } = scratch;
            let (weight, elements) = self.weights.block(self.weight_phase(depth, phase), tile.group, block);
            self.find_taps(taps, tile, depth, phase, None);
            let positions = positions(&tile.window, tile.size);
            let first = (kept * self.phases().iter().product::<usize>() + phase) * self.phase_stride(tile);
            let sums = TapSums {
                input: ring,
                channel_stride: tile.window.channel_len(),
                weight,
                elements,
                channels: self.gather.channels[0],
                taps,
                width: block.width,
                positions,
                target: &mut sums[first..][..self.phase_stride(tile)],
                target_stride: positions.next_multiple_of(LANES),
                ahead,
            };
            sums.run(self.arch);
        }
    }

    /// The sums of a few output planes for one block of output channels, all rows at once that read alike; as many input
    /// channels at a time as have weights that stay close.
    pub(super) fn planes_by_channels(
        &self,
        scratch: &mut Scratch<'_, E>,
        tile: &Tile,
        depths: Range<usize>,
        block: &Block,
    ) {
        let [_, rows, columns] = self.gather.axes.each_ref().map(|axis| axis.kernel);
        let most = self.depth.kernel * rows * columns;
        let together = (CLOSE_WEIGHTS / (most * block.width)).max(1);
        let phases = 0..self.phases().iter().product();
        let rows_together = rows_together(Registers::of(self.arch), tile.size[1]);
        for first in (0..self.gather.channels[0]).step_by(together) {
            let channels = first..(first + together).min(self.gather.channels[0]);
            for (kept, depth) in depths.clone().enumerate() {
                for phase in phases.clone() {
                    let mut row = 0;
                    while row < tile.size[0] {
                        let rows = row..self.alike(tile, phase, row, rows_together);
                        let Scratch { ring, sums, taps, .. } = scratch;
                        let (weight, elements) = self.weights.block(self.weight_phase(depth, phase), tile.group, block);
                        self.find_taps(taps, tile, depth, phase, Some(rows.clone()));
                        let position = row * tile.window.size[1];
                        let target = (kept * phases.len() + phase) * self.phase_stride(tile) + position * block.width;
                        let sums = RowSums {
                            input: &ring[channels.start * tile.window.channel_len() + position..],
                            channel_stride: tile.window.channel_len(),
                            weight: &weight[channels.start * elements * block.width..],
                            elements,
                            channels: channels.len(),
                            taps,
                            width: block.width,
                            rows: rows.len(),
                            columns: tile.size[1],
                            row_stride: tile.window.size[1],
                            target: &mut sums[target..],
                            add: first > 0,
                        };
                        sums.run(self.arch);
                        row = rows.end;
                    }
                }
            }
        }
    }

    /// Where the rows of a tile end that read the same rows inside of the volume as those from `row` on, `together` at a time.
    fn alike(&self, tile: &Tile, phase: usize, row: usize, together: usize) -> usize {
        let taps = &self.gather.axes[1].taps[phase / self.gather.axes[2].phases()];
        let rows = |row: usize| row..(row + together).min(tile.size[0]);
        let like_first = |other: &usize| {
            taps.iter().all(|tap| {
                self.reads_inside(tile, tap.read, rows(row)) == self.reads_inside(tile, tap.read, rows(*other))
            })
        };
        let last = (row..tile.size[0]).step_by(together).take_while(like_first).last();
        rows(last.unwrap_or(row)).end
    }

    /// Whether any of some rows of a tile reads a row inside of the volume.
    fn reads_inside(&self, tile: &Tile, read: usize, mut rows: Range<usize>) -> bool {
        let axis = &self.gather.axes[1];
        rows.any(|row| (0..axis.input as isize).contains(&(tile.window.first[0] + (row * axis.step + read) as isize)))
    }

    /// Number of the phase of rows and columns among all phases.
    fn weight_phase(&self, depth: usize, phase: usize) -> usize {
        depth % self.depth.phases() * self.phases().iter().product::<usize>() + phase
    }

    /// The taps of one phase (of rows and columns) of an output plane; for some `rows` of the tile only those that read a
    /// row inside of the volume.
    fn find_taps(&self, taps: &mut Vec<Tap>, tile: &Tile, depth: usize, phase: usize, rows: Option<Range<usize>>) {
        let (axes, columns) = (&self.gather.axes, self.gather.axes[2].phases());
        let (row_taps, column_taps) = (&axes[1].taps[phase / columns], &axes[2].taps[phase % columns]);
        let is_inside = |read| rows.clone().is_none_or(|rows| self.reads_inside(tile, read, rows));
        taps.clear();
        for (depth_index, plane) in self.inputs(depth) {
            let slot = plane % self.slots() * self.slot_len(tile);
            for (row_index, row) in row_taps.iter().enumerate().filter(|(_, row)| is_inside(row.read)) {
                let weight = (depth_index * row_taps.len() + row_index) * column_taps.len();
                for (column_index, column) in column_taps.iter().enumerate() {
                    let offset = slot + tile.window.offset(row.read, column.read);
                    taps.push(Tap { offset, weight: weight + column_index });
                }
            }
        }
    }
}

//! The sums of products of a tile's output planes, by register tiles of either kind.

use std::ops::Range;

use super::COMPONENTS;
use super::pass::{Pass, Scratch, Tile};
use crate::Stored;
use crate::conv::tiles::row_sums::RowSums;
use crate::conv::tiles::tap_sums::{Block, LANES, Lanes, Tap, TapSums};

/// Floats of a block's weights that stay close while the planes are gone through (256 KiB).
const CLOSE_WEIGHTS: usize = 64 * 1024;

impl<E: Stored> Pass<'_, '_, E> {
    /// A few output planes of a tile; each block of weights serves them all.
    pub(super) fn planes(&self, scratch: &mut Scratch, tile: &Tile, depths: Range<usize>) {
        for depth in depths.clone() {
            for (_, plane) in self.inputs(depth) {
                self.fill_slot(scratch, tile, plane);
            }
        }
        for block in self.weights.blocks() {
            match self.lanes {
                Lanes::Positions => {
                    for depth in depths.clone() {
                        self.plane_by_positions(scratch, tile, depth, block);
                        self.write(scratch, tile, depth, block, 0);
                    }
                }
                Lanes::Channels => {
                    self.planes_by_channels(scratch, tile, depths.clone(), block);
                    for (kept, depth) in depths.clone().enumerate() {
                        self.write(scratch, tile, depth, block, kept);
                    }
                }
            }
        }
    }

    /// Length of the sums of one component of a block.
    pub(super) fn component_len(&self, tile: &Tile, block: &Block) -> usize {
        block.width * tile.strip.positions(tile.size[1]).next_multiple_of(LANES)
    }

    /// The sums of one output plane for one block of output channels.
    fn plane_by_positions(&self, scratch: &mut Scratch, tile: &Tile, depth: usize, block: &Block) {
        let component_len = self.component_len(tile, block);
        let Scratch { ring, sums, taps, ahead, .. } = scratch;
        self.find_taps(taps, tile, depth);
        for component in 0..COMPONENTS {
            let sums = TapSums {
                input: &ring[component * tile.strip.component_len()..],
                channel_stride: tile.strip.channel_len(),
                weight: self.weights.block(component, tile.group, block),
                elements: self.weights.elements(),
                channels: self.gather.channels[0],
                taps,
                width: block.width,
                positions: tile.strip.positions(tile.size[1]),
                target: &mut sums[component * component_len..][..component_len],
                target_stride: component_len / block.width,
                ahead,
            };
            sums.run(self.arch);
        }
    }

    /// The sums of a few output planes for one block of output channels; as many input channels at a time
    /// as have weights that stay close.
    fn planes_by_channels(&self, scratch: &mut Scratch, tile: &Tile, depths: Range<usize>, block: &Block) {
        let elements = self.weights.elements();
        let (component_len, channel_len) = (self.component_len(tile, block), tile.strip.channel_len());
        let together = (CLOSE_WEIGHTS / (elements * block.width)).max(1);
        let Scratch { ring, sums, taps, .. } = scratch;
        for component in 0..COMPONENTS {
            let weight = self.weights.block(component, tile.group, block);
            for first in (0..self.gather.channels[0]).step_by(together) {
                let channels = first..(first + together).min(self.gather.channels[0]);
                for (kept, depth) in depths.clone().enumerate() {
                    self.find_taps(taps, tile, depth);
                    let sums = RowSums {
                        input: &ring[channels.start * channel_len + component * tile.strip.component_len()..],
                        channel_stride: channel_len,
                        weight: &weight[channels.start * elements * block.width..],
                        elements,
                        channels: channels.len(),
                        taps,
                        width: block.width,
                        rows: tile.size[0],
                        columns: tile.size[1],
                        row_stride: tile.strip.width,
                        target: &mut sums[(kept * COMPONENTS + component) * component_len..],
                        add: first > 0,
                    };
                    sums.run(self.arch);
                }
            }
        }
    }

    /// The taps of an output plane, of the first component.
    fn find_taps(&self, taps: &mut Vec<Tap>, tile: &Tile, depth: usize) {
        let columns = &self.gather.axes[2].taps[0];
        taps.clear();
        for (number, plane) in self.inputs(depth) {
            let slot = plane % self.slots() * self.slot_len(tile);
            for (index, column) in columns.iter().enumerate() {
                taps.push(Tap { offset: slot + column.read, weight: number * columns.len() + index });
            }
        }
    }
}

//! How the work is divided into tasks: tiles of groups of rows and of columns, and a few planes of them.

use super::packing::Strip;
use super::{COMPONENTS, OUTPUTS};
use crate::cache::cached_floats;
use crate::conv::gather::problem::Gather;
use crate::conv::tiles::tap_sums::{LANES, Lanes, Registers};
use crate::size::{product, sum};

/// A task's ring of packed planes and its sums are one and a half times the second-level cache at most where that is possible, and no more floats than this
/// (768 KiB).
const MOST_SCRATCH: usize = 192 * 1024;

/// What packing one value costs, in multiply-adds of one lane.
const PACK_COST: usize = 30;

/// Weights that fill half of the second-level cache, or are more floats than this (256 KiB), are read from afar each time.
const MANY_WEIGHTS: usize = 64 * 1024;

/// What reading a weight from afar costs, in multiply-adds of one lane.
const WEIGHT_COST: usize = 24;

/// Columns that a register tile with channels in its lanes computes; each tile costs as much as a column more.
const MOST_COLUMNS: usize = 12;

/// The size of a task. Results do not depend on it: the order of each sum is the same in any tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Groups of rows, and columns, of a tile.
    pub tile: [usize; 2],
    /// Output planes that are computed together, so that weights are read less often.
    pub planes: usize,
}

impl Tiling {
    /// The cheapest tiling by a rough count of multiply-adds and packed values; `widest` is the most channels that a
    /// register tile computes.
    pub(super) fn new(gather: &Gather, lanes: Lanes, widest: usize) -> Self {
        let [depth, rows, columns] = gather.axes.each_ref().map(|axis| axis.output.max(1));
        let mut best = (usize::MAX, Self { tile: [1, 1], planes: 1 });
        let mut parts = 1;
        while parts <= columns {
            // Whole vectors, where there is one row, so that long rows are divided well.
            let width = columns.div_ceil(parts);
            let width = if parts > 1 { width.next_multiple_of(LANES).min(columns) } else { width };
            for groups in 1..=rows.div_ceil(OUTPUTS) {
                let tile = [groups, width];
                let [_, high, wide] = Self { tile, planes: 1 }.counts(gather);
                // At least four tasks per thread.
                let tiles = (high * wide * gather.batch_size * gather.groups).max(1);
                let most = depth.div_ceil((4 * rayon::current_num_threads()).div_ceil(tiles).min(depth));
                for planes in [1, 2, 3, 4, 6, 8, 12, 16].into_iter().take_while(|planes| *planes <= most) {
                    let tiling = Self { tile, planes };
                    let cost = tiling.cost(gather, lanes, widest);
                    best = std::cmp::min_by_key(best, (cost, tiling), |(cost, _)| *cost);
                }
            }
            parts = (parts + 1).max(parts * 5 / 4);
        }
        best.1
    }

    /// Input planes that a task holds at once.
    pub(super) fn slots(&self, gather: &Gather) -> usize {
        let axis = &gather.axes[0];
        (axis.span() + (self.planes - 1) * axis.step).min(axis.input).max(1)
    }

    /// Steps along the depth, and tiles along rows and columns.
    pub(super) fn counts(&self, gather: &Gather) -> [usize; 3] {
        let [depth, rows, columns] = gather.axes.each_ref().map(|axis| axis.output);
        [depth.div_ceil(self.planes), rows.div_ceil(OUTPUTS).div_ceil(self.tile[0]), columns.div_ceil(self.tile[1])]
    }

    /// Cost of one item and group, in multiply-adds of one lane.
    fn cost(&self, gather: &Gather, lanes: Lanes, widest: usize) -> usize {
        let (axis, channels) = (&gather.axes[0], gather.channels);
        let [_, high, wide] = self.counts(gather);
        let strip = Strip::shared(gather, [0, 0], self.tile);
        let elements = axis.kernel * gather.axes[2].kernel;
        let read_planes = (axis.output * axis.step + axis.span() - 1).min(axis.input);
        let (positions, kept) = match lanes {
            Lanes::Positions => (LANES * vectors_cost(strip.positions(self.tile[1]).div_ceil(LANES)) / 8, 1),
            Lanes::Channels => (self.tile[0] * (self.tile[1] + self.tile[1].div_ceil(MOST_COLUMNS)), self.planes),
        };
        let weights = elements * channels[1] * COMPONENTS;
        let far = if weights * channels[0] > MANY_WEIGHTS.min(cached_floats() / 2) { WEIGHT_COST } else { 0 };
        let read = product(&[axis.output.div_ceil(self.planes), weights, far]);
        let packed = strip.channel_len();
        let computed = product(&[axis.output, positions, elements, channels[1], COMPONENTS]);
        let each = sum(&[computed, product(&[read_planes, packed, PACK_COST]), read]);
        let cost = product(&[high, wide, channels[0], each]);
        let ring = self.slots(gather) * channels[0] * packed;
        let scratch = ring + COMPONENTS * widest * strip.positions(self.tile[1]).next_multiple_of(LANES) * kept;
        // A scratch that is too large is the last resort, the smallest first.
        if scratch > MOST_SCRATCH.min(cached_floats() * 3 / 2) { sum(&[usize::MAX / 2, scratch]) } else { cost }
    }
}

/// What the lanes are best for a gather. Depends on shapes and registers only.
pub(super) fn lanes(gather: &Gather, registers: Registers) -> Lanes {
    let [depth, rows, columns] = &gather.axes;
    let (groups, channels) = (rows.output.div_ceil(OUTPUTS), gather.channels[1]);
    let flat = |together: usize| {
        let positions = Strip::shared(gather, [0, 0], [together, columns.output]).positions(columns.output);
        groups.div_ceil(together) * vectors_cost(positions.div_ceil(LANES)) * LANES / 8
    };
    let flat = product(&[(1..=groups).map(flat).min().unwrap_or(0), channels]);
    let padded = product(&[groups, columns.output, channels.next_multiple_of(2 * registers.lanes)]);
    Lanes::faster(registers, gather.channels[0] * depth.kernel * columns.kernel, flat, padded)
}

/// Cost of so many vectors of positions, in eighths: tiles of less than three vectors load more than they multiply.
fn vectors_cost(vectors: usize) -> usize {
    match vectors {
        1 => 14,
        4 => 36,
        _ => vectors / 3 * 24 + [0, 12, 18][vectors % 3],
    }
}

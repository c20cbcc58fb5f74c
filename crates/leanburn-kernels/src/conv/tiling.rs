//! How a gather is divided into tasks: tiles of rows and columns, and chunks of depth.

use super::axis::Axis;
use super::tile::{LANES, Lanes};

/// A task's ring of packed planes and its sums take no more floats than this where that is possible (512 KiB).
const MOST_SCRATCH: usize = 128 * 1024;

/// What packing one value costs, in multiply-adds of one lane.
const PACK_COST: usize = 24;

/// Products in each sum for which channels may be the lanes.
const LEAST_PRODUCTS: usize = 400;

/// Weights of more floats than this are read from afar each time (256 KiB).
const MANY_WEIGHTS: usize = 64 * 1024;

/// What reading a weight from afar costs, in multiply-adds of one lane.
const WEIGHT_COST: usize = 24;

/// The size of a task. Results do not depend on it: the order of each sum is the same in any tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Rows and columns of a tile, in indices of the output (of each phase).
    pub tile: [usize; 2],
    /// Output planes (of all phases) of a chunk.
    pub depth: usize,
    /// Output planes (of all phases) that are computed together, so that weights are read less often.
    pub planes: usize,
}

/// What a tiling is chosen for.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    /// Depth, rows and columns.
    pub axes: &'a [Axis; 3],
    /// Channels of the input and of the output, of one group.
    pub channels: [usize; 2],
    /// What the lanes of a vector are.
    pub lanes: Lanes,
    /// Channels that a register tile computes at most.
    pub widest: usize,
    /// Independent pieces of work beside tiles: items of the batch times groups.
    pub pieces: usize,
}

impl Tiling {
    /// The cheapest tiling by a rough count of multiply-adds and packed values.
    pub(crate) fn new(work: &Work<'_>) -> Self {
        let [depth, rows, columns] = work.axes.each_ref().map(|axis| axis.indices().max(1));
        let mut best = (usize::MAX, Self { tile: [1, 1], depth: 1, planes: 1 });
        let mut parts = 1;
        while parts <= columns {
            // Whole vectors, where there is one row, so that long rows are divided well.
            let width = columns.div_ceil(parts);
            let width = if parts > 1 { width.next_multiple_of(LANES).min(columns) } else { width };
            for height in 1..=rows {
                let tile = [height, width];
                let chunk = work.depth_of_chunk(tile, depth);
                for planes in [1, 2, 3, 4, 6, 8, 12, 16].map(|planes| planes * work.axes[0].phases()) {
                    if planes <= chunk {
                        let tiling = Self { tile, depth: chunk, planes };
                        best = std::cmp::min_by_key(best, (work.cost(&tiling), tiling), |(cost, _)| *cost);
                    }
                }
            }
            parts = (parts + 1).max(parts * 5 / 4);
        }
        best.1
    }

    /// Input planes that a task holds at once.
    pub(crate) fn slots(&self, axis: &Axis) -> usize {
        let more = (self.planes.div_ceil(axis.phases()) - 1) * axis.step;
        (axis.span() + more).min(axis.input).max(1)
    }

    /// Tiles along rows and columns, and chunks along the depth.
    pub(crate) fn counts(&self, axes: &[Axis; 3]) -> [usize; 3] {
        [
            axes[0].output.div_ceil(self.depth),
            axes[1].indices().div_ceil(self.tile[0]),
            axes[2].indices().div_ceil(self.tile[1]),
        ]
    }
}

/// What the lanes are best for a gather of so many channels with `vectors` of so many lanes. Depends on shapes only.
pub(crate) fn lanes(axes: &[Axis; 3], channels: [usize; 2], vector: usize) -> Lanes {
    let [_, rows, columns] = axes.each_ref().map(Axis::indices);
    let elements: usize = axes.iter().map(|axis| axis.taps.iter().map(Vec::len).max().unwrap_or(0)).product();
    let width = columns + (axes[2].span() - 1) / axes[2].step;
    let flat = (rows * width).next_multiple_of(vector) * channels[1];
    let padded = rows * columns * channels[1].next_multiple_of(2 * vector);
    // The transposed result has to pay.
    let many = channels[0] * elements >= LEAST_PRODUCTS;
    if many && padded * 21 < flat * 20 { Lanes::Channels } else { Lanes::Positions }
}

impl Work<'_> {
    /// Values that are packed of a plane's channel for a tile, and its flat positions.
    fn packed(&self, tile: [usize; 2]) -> [usize; 2] {
        let axes = &self.axes[1..];
        let more = [0, 1].map(|axis: usize| (axes[axis].span() - 1) / axes[axis].step);
        let phases: usize = axes.iter().map(|axis| axis.step.min(axis.span())).product();
        let shared = if tile[1] == axes[1].indices() && axes[1].step == 1 { more[1] / 2 } else { 0 };
        let [height, width] = [tile[0] + more[0], tile[1] + more[1] - shared];
        [height * width * phases, (tile[0] - 1) * width + tile[1]]
    }

    /// Output planes of a chunk, such that there are at least four tasks per thread.
    fn depth_of_chunk(&self, tile: [usize; 2], indices: usize) -> usize {
        let tiles = self.axes[1].indices().div_ceil(tile[0]) * self.axes[2].indices().div_ceil(tile[1]);
        let tasks = 4 * rayon::current_num_threads();
        let chunks = tasks.div_ceil((tiles * self.pieces).max(1)).min(indices);
        self.axes[0].phases() * indices.div_ceil(chunks)
    }

    /// Cost of one piece, in multiply-adds.
    fn cost(&self, tiling: &Tiling) -> usize {
        let axis = &self.axes[0];
        let [chunks, high, wide] = tiling.counts(self.axes);
        let [packed, positions] = self.packed(tiling.tile);
        let elements: usize = self.axes.iter().map(|axis| axis.kernel).product();
        let phases: usize = self.axes[1..].iter().map(Axis::phases).product();
        let planes = (axis.indices() * axis.step + chunks * (axis.span() - 1)).min(chunks * axis.input);
        let (positions, kept) = match self.lanes {
            Lanes::Positions => (positions.next_multiple_of(LANES), 1),
            Lanes::Channels => (tiling.tile[0] * tiling.tile[1], tiling.planes),
        };
        let computed = axis.indices() * positions * elements * self.channels[1];
        let weights = elements * self.channels[1];
        let far = if weights * self.channels[0] > MANY_WEIGHTS { WEIGHT_COST } else { 0 };
        let read = axis.indices().div_ceil(tiling.planes.div_ceil(axis.phases())) * weights * far;
        let cost = high * wide * self.channels[0] * (computed + planes * packed * PACK_COST + read);
        let ring = tiling.slots(axis) * self.channels[0] * packed;
        let scratch = ring + self.widest * phases * positions * kept;
        // A scratch that is too large is the last resort, the smallest first.
        if scratch > MOST_SCRATCH { usize::MAX / 2 + scratch } else { cost }
    }
}

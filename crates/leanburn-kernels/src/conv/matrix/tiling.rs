//! How a gather is divided into tasks: tiles of rows and columns, of one plane each.

use crate::buffer::Lines;
use crate::cache::second_level_cache;
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::Gather;
use crate::conv::matrix::weights::BLOCK;
use crate::conv::packing::planes::Window;
use crate::size::product;
use crate::tile_products::{Pair, ROWS, TERMS, Unit};

/// Rows of a tile, at most.
const MOST_ROWS: usize = 64;

/// Columns of a tile, at most.
const MOST_COLUMNS: usize = 512;

/// Positions whose sums are computed at once: two tiles.
const POSITIONS: usize = 2 * ROWS;

/// What packing or writing a value costs.
const VALUE_COST: usize = 2;

/// What beginning a row costs, to pack it or to write it.
const ROW_COST: usize = 40;

/// The size of a task. Results do not depend on it: the order of each sum is the same in any tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Rows and columns of a tile, in indices of the output (of each phase).
    pub tile: [usize; 2],
}

/// Lengths of what a task holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lens {
    /// Planes in the ring.
    pub slots: usize,
    /// From one packed pair of channels to the next.
    pub pair_stride: usize,
    /// Length of a packed plane.
    pub slot: usize,
    /// From one output channel's sums to the next one's.
    pub sums_stride: usize,
    /// Phases of the output's rows and columns.
    pub phases: usize,
}

impl Lens {
    /// For tiles that read a plane by this window.
    pub(super) fn of(gather: &Gather, window: &Window, tile: [usize; 2]) -> Self {
        let pair_stride = apart(window.channel_len());
        let pairs = gather.channels[0].next_multiple_of(TERMS) / 2;
        let positions = (tile[0] - 1) * window.size[1] + tile[1];
        Self {
            slots: gather.axes[0].span().min(gather.axes[0].input).max(1),
            pair_stride,
            slot: pairs * pair_stride,
            sums_stride: apart(positions.next_multiple_of(POSITIONS)),
            phases: gather.axes[1].phases() * gather.axes[2].phases(),
        }
    }

    /// Packed pairs of the ring, with those that are read after the last.
    pub(super) fn ring(&self) -> usize {
        self.slots * self.slot + 2 * POSITIONS
    }

    /// Sums of a block of output channels, with those that are read after the last.
    pub(super) fn sums(&self) -> usize {
        self.phases * BLOCK * self.sums_stride + ROWS
    }

    pub(super) fn bytes(&self) -> usize {
        Lines::<Pair>::bytes(self.ring()) + Lines::<f32>::bytes(self.sums())
    }
}

/// At least `len`, and an odd number of cache lines, so that the rows of a tile are not all in the same set of the cache.
pub(super) fn apart(len: usize) -> usize {
    let lines = len.div_ceil(ROWS);
    (lines + 1 - lines % 2) * ROWS
}

/// How many sixteens of positions a tile is computed in, whose packed rows are so wide; and those of a row, where rows of whole sixteens are taken one by one.
/// Otherwise what lies between two rows is computed too, and nobody reads it.
pub(super) fn sixteens([rows, columns]: [usize; 2], width: usize) -> (usize, Option<usize>) {
    let in_a_row = columns / ROWS;
    match columns % ROWS {
        0 => (rows * in_a_row, Some(in_a_row)),
        _ => (((rows - 1) * width + columns).div_ceil(ROWS), None),
    }
}

/// What a tile reads of a plane, whose first output is `first`.
pub(super) fn window(axes: &[Axis; 3], first: [usize; 2], tile: [usize; 2]) -> Window {
    let axes = &axes[1..];
    let start = |axis: usize| axes[axis].first + (first[axis] * axes[axis].step) as isize;
    let reads = [axes[0].reads(), axes[1].reads()];
    Window::new([start(0), start(1)], [axes[0].step, axes[1].step], tile, [&reads[0], &reads[1]])
}

impl Tiling {
    /// The cheapest tiling by a rough count, whose ring of packed planes and sums fill half of the second-level cache at most, where that is possible.
    pub(super) fn new(unit: Unit, gather: &Gather) -> Self {
        let [_, rows, columns] = gather.axes.each_ref().map(|axis| axis.indices().max(1));
        let width = columns.div_ceil(columns.div_ceil(MOST_COLUMNS)).next_multiple_of(ROWS).min(columns);
        let threads = rayon::current_num_threads();
        let mut best = (usize::MAX, Self { tile: [1, width] });
        // The smallest heights that give each number of tiles.
        let heights = (1..=rows.min(MOST_ROWS)).filter(|height| *height == rows.div_ceil(rows.div_ceil(*height)));
        for height in heights {
            let tile = [height, width];
            let window = window(&gather.axes, [0, 0], tile);
            let lens = Lens::of(gather, &window, tile);
            if lens.bytes() > second_level_cache() / 2 && height > 1 {
                break;
            }
            let tiling = Self { tile };
            // Of those that cost the same the tallest.
            let one = (tiling.cost(unit, gather, &window, &lens, threads), tiling);
            best = std::cmp::min_by_key(one, best, |(cost, _)| *cost);
        }
        best.1
    }

    /// Planes, and tiles along rows and columns.
    pub(super) fn counts(&self, gather: &Gather) -> [usize; 3] {
        [
            gather.axes[0].output,
            gather.axes[1].indices().div_ceil(self.tile[0]),
            gather.axes[2].indices().div_ceil(self.tile[1]),
        ]
    }

    /// About the cycles of the thread that has most tasks.
    fn cost(&self, unit: Unit, gather: &Gather, window: &Window, lens: &Lens, threads: usize) -> usize {
        let axis = &gather.axes[0];
        let elements: usize = gather.axes.iter().map(|axis| axis.kernel).product();
        let [inputs, outputs] = [gather.channels[0].div_ceil(TERMS), gather.channels[1].div_ceil(ROWS)];
        let rows = window.phases[0] * window.size[0];
        let pack = product(&[gather.channels[0], rows, ROW_COST + window.phases[1] * window.size[1] * VALUE_COST]);
        let written = self.tile[0] * (ROW_COST + self.tile[1] * VALUE_COST) * lens.phases;
        // Planes of all phases; a march begins with those that the first reads in addition.
        let computed = sixteens(self.tile, window.size[1]).0.next_multiple_of(2);
        let step = product(&[computed, elements, inputs, outputs, unit.cycles()])
            + pack * axis.step.min(axis.input)
            + product(&[axis.phases(), gather.channels[1], written]);
        let begin = pack * axis.span().saturating_sub(axis.step).min(axis.input);
        let [planes, high, wide] = self.counts(gather);
        let (steps, pieces) = (planes.div_ceil(axis.phases()), gather.batch_size * gather.groups);
        let most = product(&[steps, high, wide, pieces]).div_ceil(threads);
        product(&[step, most]) + product(&[begin, most.div_ceil(steps.max(1))])
    }
}

//! How a gather is divided into tasks: tiles of rows and columns, and a few planes of them.

use crate::cache::cached_floats;
use crate::conv::gather::axis::Axis;
use crate::conv::tiles::tap_sums::{LANES, Lanes, Registers};
use crate::size::{product, sum};

/// A task's ring of packed planes and its sums are a quarter more than the second-level cache at most where that is possible, and no more floats than this (1280 KiB). Of a
/// ring one plane is read at a time, where planes are transformed; with a cache of 1 MiB large volumes take 0.97 of the time that they take with three quarters of it.
const MOST_SCRATCH: usize = 320 * 1024;

/// What packing one value costs, in multiply-adds of one lane.
const PACK_COST: usize = 32;

/// What beginning a row costs, to pack it or to write it, in multiply-adds of one lane.
const ROW_COST: usize = 500;

/// Weights that fill half of the second-level cache, or are more floats than this (256 KiB), are read from afar each time.
const MANY_WEIGHTS: usize = 64 * 1024;

/// What reading a weight from afar costs, in multiply-adds of one lane.
const WEIGHT_COST: usize = 24;

/// What reading a weight from the second-level cache costs, where not all of them fit the first.
const NEAR_WEIGHT_COST: usize = 10;

/// Weights that stay in the first-level cache (16 KiB).
const FEW_WEIGHTS: usize = 4 * 1024;

/// The size of a task. Results do not depend on it: the order of each sum is the same in any tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Rows and columns of a tile, in indices of the output (of each phase).
    pub tile: [usize; 2],
    /// Output planes (of all phases) that are computed together: few, or more where weights are read from afar.
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
    /// Whether the sums of all planes that are computed together are held at the same time.
    pub keep: bool,
    /// Independent pieces of work other than tiles: items of the batch times groups.
    pub pieces: usize,
}

impl Tiling {
    /// The cheapest tiling by a rough count of multiply-adds and packed values.
    pub(crate) fn new(work: &Work<'_>) -> Self {
        let [depth, rows, columns] = work.axes.each_ref().map(|axis| axis.indices().max(1));
        let (count, phases) = (Count::new(work), work.axes[0].phases());
        let mut best = (usize::MAX, Self { tile: [1, 1], planes: phases });
        // Whole vectors, where there is one row, so that long rows are divided well.
        for width in divisions(columns).map(|width| width.next_multiple_of(LANES).min(columns)) {
            for height in divisions(rows) {
                for planes in count.planes().iter().take_while(|planes| **planes <= depth) {
                    let tiling = Self { tile: [height, width], planes: planes * phases };
                    best = std::cmp::min_by_key(best, (count.cost(&tiling), tiling), |(cost, _)| *cost);
                }
            }
        }
        best.1
    }

    /// Input planes that a task holds at once.
    pub(crate) fn slots(&self, axis: &Axis) -> usize {
        let more = (self.planes.div_ceil(axis.phases()) - 1) * axis.step;
        (axis.span() + more).min(axis.input).max(1)
    }

    /// Steps along the depth, and tiles along rows and columns.
    pub(crate) fn counts(&self, axes: &[Axis; 3]) -> [usize; 3] {
        [
            axes[0].output.div_ceil(self.planes),
            axes[1].indices().div_ceil(self.tile[0]),
            axes[2].indices().div_ceil(self.tile[1]),
        ]
    }
}

/// What the lanes are best for a gather of so many channels. Depends on shapes and registers only.
pub(crate) fn lanes(axes: &[Axis; 3], channels: [usize; 2], registers: Registers) -> Lanes {
    let [_, rows, columns] = axes.each_ref().map(Axis::indices);
    let elements: usize = axes.iter().map(Axis::phase_taps).product();
    let width = columns + (axes[2].span() - 1) / axes[2].step;
    let flat = product(&[(rows * width).next_multiple_of(registers.lanes), channels[1]]);
    let padded = product(&[rows, columns, channels[1].next_multiple_of(2 * registers.lanes)]);
    Lanes::faster(registers, channels[0] * elements, flat, padded)
}

/// The parts of `len` when it is divided by one, two, .., the longest first, each length once; fewer of the short ones.
fn divisions(len: usize) -> impl Iterator<Item = usize> {
    let next = move |parts: &usize| {
        let part = len.div_ceil(*parts);
        // The next number of parts that makes them shorter.
        (part > 1).then(|| (len.div_ceil(part - 1)).max(parts * 9 / 8))
    };
    std::iter::successors(Some(1), next).map(move |parts| len.div_ceil(parts))
}

/// What a tiling costs.
struct Count<'a> {
    work: &'a Work<'a>,
    threads: usize,
    /// Elements of the kernel.
    elements: usize,
    /// Whether weights are read from afar.
    are_far: bool,
    /// What reading all weights costs.
    reading: usize,
    /// Phases of the output's rows and columns.
    phases: usize,
    /// Phases of the input's rows and columns.
    packed_phases: usize,
    /// Rows and columns that are read in addition to those of the tile.
    more: [usize; 2],
    span: usize,
}

impl<'a> Count<'a> {
    fn new(work: &'a Work<'a>) -> Self {
        let axes = &work.axes[1..];
        let elements: usize = work.axes.iter().map(|axis| axis.kernel).product();
        let weights = elements * work.channels[0] * work.channels[1];
        let are_far = weights > MANY_WEIGHTS.min(cached_floats() / 2);
        Self {
            work,
            threads: rayon::current_num_threads(),
            elements,
            are_far,
            reading: match weights {
                _ if are_far => weights * WEIGHT_COST,
                0..=FEW_WEIGHTS => 0,
                _ => weights * NEAR_WEIGHT_COST,
            },
            phases: axes.iter().map(Axis::phases).product(),
            packed_phases: axes.iter().map(|axis| axis.step.min(axis.span())).product(),
            more: [0, 1].map(|axis: usize| (axes[axis].span() - 1) / axes[axis].step),
            span: work.axes[0].span(),
        }
    }

    /// Planes (of each phase) that may be worth computing together.
    fn planes(&self) -> &'static [usize] {
        if self.are_far || self.work.lanes == Lanes::Channels { &[1, 2, 3, 4, 6, 8, 12, 16] } else { &[1] }
    }

    /// Values that are packed of a plane's channel for a tile, and its flat positions.
    fn packed(&self, tile: [usize; 2]) -> [usize; 2] {
        let axis = &self.work.axes[2];
        let shared = if tile[1] == axis.indices() && axis.step == 1 { self.more[1] / 2 } else { 0 };
        let [height, width] = [tile[0] + self.more[0], tile[1] + self.more[1] - shared];
        [height * width * self.packed_phases, (tile[0] - 1) * width + tile[1]]
    }

    /// Multiply-adds of the thread that has most tasks. The last ones do not end at the same time: some of one is added.
    fn cost(&self, tiling: &Tiling) -> usize {
        let Work { axes, channels, lanes, widest, keep, pieces } = self.work;
        let axis = &axes[0];
        let [packed, positions] = self.packed(tiling.tile);
        let positions = match lanes {
            Lanes::Positions => positions.next_multiple_of(LANES),
            Lanes::Channels => tiling.tile[0] * tiling.tile[1],
        };
        let kept = if *keep { tiling.planes } else { 1 };
        let together = tiling.planes / axis.phases();
        let row = (tiling.tile[0] + self.more[0]) * ROW_COST;
        let pack = product(&[channels[0], sum(&[product(&[packed, PACK_COST]), row])]);
        let step = sum(&[
            product(&[channels[0], together, positions, self.elements, channels[1]]),
            product(&[(together * axis.step).min(axis.input), pack]),
            self.reading,
            product(&[tiling.planes, tiling.tile[0], self.phases, channels[1], ROW_COST]),
        ]);
        // What the first step of a march packs in addition.
        let begin = product(&[self.span.saturating_sub(axis.step).min(axis.input), pack]);
        let slots = (self.span + (together - 1) * axis.step).min(axis.input);
        let scratch = sum(&[product(&[slots, channels[0], packed]), product(&[*widest, self.phases, positions, kept])]);
        // A scratch that is too large is the last resort, the smallest first.
        if scratch > MOST_SCRATCH.min(cached_floats() / 4 * 5) {
            return sum(&[usize::MAX / 2, scratch]);
        }
        let [steps, high, wide] = tiling.counts(axes);
        let most = (steps * high * wide * pieces).div_ceil(self.threads);
        sum(&[product(&[step, most]), product(&[begin, most.div_ceil(steps.max(1))]), step / 8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::gather::problem::Gather;
    use crate::conv::reference::cube;

    #[test]
    fn each_shape_takes_what_was_fastest() {
        let [few, many] = [(true, 8), (false, 16)].map(|(few, lanes)| Registers { few, lanes });
        for (shape, expected) in [
            // Long rows fill vectors with positions, which pays with many registers.
            (cube([32, 32], 100, 3, 1, 1), [Lanes::Channels, Lanes::Positions]),
            // Short rows, in both; few products, and channels that fill no vectors, in neither.
            (cube([32, 32], 48, 3, 2, 1), [Lanes::Channels; 2]),
            (cube([64, 64], 16, 3, 2, 1), [Lanes::Channels; 2]),
            (cube([8, 32], 48, 3, 2, 1), [Lanes::Positions; 2]),
            (cube([32, 4], 48, 3, 2, 1), [Lanes::Positions; 2]),
        ] {
            let gather = Gather::forward(&shape);
            let found = [few, many].map(|registers| lanes(&gather.axes, gather.channels, registers));
            assert_eq!(found, expected, "{shape:?}");
        }
    }
}

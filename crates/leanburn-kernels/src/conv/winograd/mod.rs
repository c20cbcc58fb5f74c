//! Convolutions whose kernel has three rows, by half the products.
//!
//! Four rows of the output that share six rows of the input take six products instead of twelve: `Aᵀ (G g ⊙ Bᵀ d)`, the
//! minimal filtering of Winograd ([Fast Algorithms for Convolutional Neural Networks](https://arxiv.org/abs/1509.09308)),
//! here along the height only, so that depth and width stay as they are: the products are summed over channels and the
//! other elements of the kernel by the same register tiles as in the direct way ([`super::gather`]). All transforms are
//! between rows, element by element.
//!
//! # Numerics
//!
//! Errors are relative to the largest of the six rows: about 1e-6 (in the L2 norm) with 64 channels. What is not finite
//! spreads to the four rows of its group.

mod packing;
mod products;
#[cfg(test)]
mod tests;
mod tiling;
mod transform;
mod weights;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use self::packing::{PackStrip, Strip};
use self::tiling::{Tiling, lanes};
use self::transform::{COMPONENTS, OUTPUTS};
use self::weights::TransformedWeights;
use super::axis::Axis;
use super::depth_transform::DepthTransform;
use super::gather::Gather;
use super::pack::{SLACK, Source};
use super::rows::{ByChannel, SharedOutput, TileRows};
use super::tile::{Block, LANES, Lanes, Registers, Tap, blocks};
use super::{Input, Output};
use crate::Element;
use crate::parallel::busy;
use crate::simd::{load, store};

/// Fewest channels, in and out, for which the transforms pay.
const LEAST_CHANNELS: usize = 6;

/// Fewest products, with a transformed value or into one, for which the transforms pay.
const LEAST_PRODUCTS: usize = 48;

/// Fewest positions of the output for which transformed weights pay.
const LEAST_POSITIONS: usize = 256;

/// Most transformed weights for each position of the output: 64 KiB.
const MOST_WEIGHTS: usize = 16 * 1024;

/// How a gather is computed best.
struct Way {
    /// By rows transformed; else directly.
    rows: bool,
    /// With depth transformed, where it is direct.
    depth: Option<DepthTransform>,
}

impl Way {
    fn of(gather: &Gather) -> Self {
        let depth = DepthTransform::of(gather);
        let near = depth.as_ref().is_some_and(|transform| transform.reads_few_weights(gather));
        Self { rows: pays(gather) && !near, depth }
    }
}

/// Computes a gather in the best way: along the depth or by rows transformed where that pays, else directly.
pub(crate) fn run<E: Element>(gather: &Gather, arch: Arch, input: Input<'_, E>, weight: &[f32], output: Output<'_, E>) {
    match Way::of(gather) {
        Way { rows: true, .. } => run_transformed(gather, arch, input, weight, output),
        Way { depth, .. } => gather.run(arch, depth, input, weight, output),
    }
}

/// Bytes that [`run`] takes at most, in the current pool.
pub(crate) fn workspace(gather: &Gather, arch: Arch) -> usize {
    let way = Way::of(gather);
    if !way.rows {
        return gather.workspace(arch, way.depth);
    }
    let plan = Plan::new(gather, arch);
    let [weights, transforming] = TransformedWeights::bytes(gather, &plan.blocks);
    weights + transforming.max(busy(plan.tasks()) * ScratchLens::of(&plan).bytes())
}

/// Whether the kernel has three rows, one after the other, that all outputs read.
fn fits(gather: &Gather) -> bool {
    let [depth, rows, columns] = &gather.axes;
    let mut reads = rows.reads();
    reads.sort_unstable();
    let simple = |axis: &Axis| axis.phases() == 1 && axis.step == 1;
    depth.phases() == 1 && simple(rows) && simple(columns) && reads == [0, 1, 2]
}

/// Whether that is faster than the direct way, by measurements. Depends on the shape only.
fn pays(gather: &Gather) -> bool {
    if !fits(gather) {
        return false;
    }
    let [depth, rows, columns] = gather.axes.each_ref().map(|axis| axis.output);
    let elements = gather.axes[0].kernel * gather.axes[2].kernel;
    let [least, most] = [gather.channels.iter().min(), gather.channels.iter().max()].map(|channels| *channels.unwrap());
    let weights = gather.groups * least * most * elements * COMPONENTS;
    // Of one item: what is computed of it must not depend on how many others there are.
    let positions = depth * rows * columns;
    // The transforms of the values are shared by enough products, the last group has enough rows, ..
    least >= LEAST_CHANNELS && least * elements >= LEAST_PRODUCTS && 3 * rows * 4 >= COMPONENTS * rows.div_ceil(OUTPUTS) * 5
        // .. and the transformed weights serve enough positions.
        && positions >= LEAST_POSITIONS && weights <= positions * MOST_WEIGHTS
}

/// Computes a gather that [`fits`].
fn run_transformed<E: Element>(
    gather: &Gather,
    arch: Arch,
    input: Input<'_, E>,
    weight: &[f32],
    output: Output<'_, E>,
) {
    if output.values.is_empty() {
        return;
    }
    let mut plan = Plan::new(gather, arch);
    let weights = TransformedWeights::new(arch, gather, std::mem::take(&mut plan.blocks), weight);
    let size = gather.axes.each_ref().map(|axis| axis.input);
    let source = Source { input, channels: gather.groups * gather.channels[0], size };
    let ([chunks, high, wide], tasks) = (plan.tiling.counts(gather), plan.tasks());
    let Plan { lanes, tiling, .. } = plan;
    let lens = ScratchLens::of(&plan);
    let pass = Pass { arch, gather, source, weights, lanes, tiling, output: SharedOutput::new(output) };
    (0..tasks).into_par_iter().for_each_init(
        || Scratch::new(&lens),
        |scratch, task| {
            let (chunk, task) = (task % chunks, task / chunks);
            let (column, task) = (task % wide, task / wide);
            let (row, piece) = (task % high, task / high);
            pass.task(scratch, piece, [row, column], chunk);
        },
    );
}

/// What a run is made of, before there are numbers.
struct Plan<'a> {
    gather: &'a Gather,
    lanes: Lanes,
    blocks: Vec<Block>,
    widest: usize,
    tiling: Tiling,
}

impl<'a> Plan<'a> {
    fn new(gather: &'a Gather, arch: Arch) -> Self {
        let lanes = lanes(gather, Registers::of(arch).lanes);
        let blocks = blocks(arch, lanes, gather.channels[1]);
        let widest = blocks.iter().map(|block| block.width).max().unwrap_or(1);
        Self { gather, lanes, blocks, widest, tiling: Tiling::new(gather, lanes, widest) }
    }

    fn tasks(&self) -> usize {
        self.gather.batch_size * self.gather.groups * self.tiling.counts(self.gather).iter().product::<usize>()
    }
}

/// One run.
struct Pass<'a, 'b, E> {
    arch: Arch,
    gather: &'a Gather,
    source: Source<'a, E>,
    weights: TransformedWeights,
    lanes: Lanes,
    /// Its rows are groups of rows.
    tiling: Tiling,
    output: SharedOutput<'b, E>,
}

/// What a thread holds.
struct Scratch {
    /// `[slot][channel]` as [`PackStrip::target`], and slack.
    ring: Vec<f32>,
    /// The plane that each slot holds.
    planes: Vec<Option<usize>>,
    /// For each plane computed together `[component]`, then `[channel][position]` or `[position][channel]`.
    sums: Vec<f32>,
    /// The rows of one plane, `[row of the group][channel][position]`, if they are not already so among the sums.
    rows: Vec<f32>,
    /// For [`TileRows`].
    room: Vec<f32>,
    /// For [`PackStrip`].
    packed: Vec<f32>,
    taps: Vec<Tap>,
}

/// Lengths of what a thread holds.
struct ScratchLens {
    ring: usize,
    slots: usize,
    sums: usize,
    rows: usize,
    room: usize,
    packed: usize,
    taps: usize,
}

impl ScratchLens {
    fn of(plan: &Plan<'_>) -> Self {
        let Plan { gather, lanes, tiling, .. } = plan;
        let (slots, strip) = (tiling.slots(gather), Strip::apart(gather, [0, 0], tiling.tile));
        let component = plan.widest * strip.positions(tiling.tile[1]).next_multiple_of(LANES);
        Self {
            ring: slots * gather.channels[0] * strip.channel_len() + 2 * SLACK,
            slots,
            sums: kept(*lanes, tiling) * COMPONENTS * component,
            rows: if *lanes == Lanes::Channels { OUTPUTS * component } else { 0 },
            room: 2 * tiling.tile[1].next_multiple_of(LANES),
            packed: strip.room(),
            taps: gather.axes[0].kernel * gather.axes[2].kernel,
        }
    }

    /// Bytes of all.
    fn bytes(&self) -> usize {
        let Self { ring, slots, sums, rows, room, packed, taps } = self;
        let floats = ring + sums + rows + room + packed;
        floats * size_of::<f32>() + slots * size_of::<Option<usize>>() + taps * size_of::<Tap>()
    }
}

impl Scratch {
    fn new(lens: &ScratchLens) -> Self {
        Self {
            ring: vec![0.0; lens.ring],
            planes: vec![None; lens.slots],
            sums: vec![0.0; lens.sums],
            rows: vec![0.0; lens.rows],
            room: vec![0.0; lens.room],
            packed: Vec::with_capacity(lens.packed),
            taps: Vec::with_capacity(lens.taps),
        }
    }
}

/// Planes of sums that are kept at the same time.
fn kept(lanes: Lanes, tiling: &Tiling) -> usize {
    if lanes == Lanes::Channels { tiling.planes } else { 1 }
}

/// The part of an output plane that is computed at once: some groups of rows.
struct Tile {
    item: usize,
    group: usize,
    first: [usize; 2],
    size: [usize; 2],
    strip: Strip,
}

impl<E: Element> Pass<'_, '_, E> {
    /// Planes that the ring holds.
    fn slots(&self) -> usize {
        self.tiling.slots(self.gather)
    }

    /// One tile of one chunk of the depth. `piece` is the item and group, `place` the number of the tile.
    fn task(&self, scratch: &mut Scratch, piece: usize, place: [usize; 2], chunk: usize) {
        let [depth, rows, columns] = self.gather.axes.each_ref().map(|axis| axis.output);
        let most = [rows.div_ceil(OUTPUTS), columns];
        let first: [usize; 2] = std::array::from_fn(|axis| place[axis] * self.tiling.tile[axis]);
        let size: [usize; 2] = std::array::from_fn(|axis| self.tiling.tile[axis].min(most[axis] - first[axis]));
        let (item, group) = (piece / self.gather.groups, piece % self.gather.groups);
        let tile = Tile { item, group, first, size, strip: Strip::shared(self.gather, first, size) };
        scratch.planes.fill(None);
        // A tile that shares zeros reads a few after the last channel of a slot.
        for slot in 0..=self.slots() {
            scratch.ring[slot * self.slot_len(&tile)..][..SLACK].fill(0.0);
        }
        let start = chunk * self.tiling.depth;
        let end = (start + self.tiling.depth).min(depth);
        for depth in (start..end).step_by(self.tiling.planes) {
            self.planes(scratch, &tile, depth..(depth + self.tiling.planes).min(end));
        }
    }

    /// The input planes that an output plane reads, each with the number of its tap.
    fn inputs(&self, depth: usize) -> impl Iterator<Item = (usize, usize)> {
        let axis = &self.gather.axes[0];
        let first = axis.first + (depth * axis.step) as isize;
        axis.taps[0].iter().enumerate().filter_map(move |(number, tap)| {
            let plane = usize::try_from(first + tap.read as isize).ok()?;
            (plane < axis.input).then_some((number, plane))
        })
    }

    /// Length of one packed plane of a tile.
    fn slot_len(&self, tile: &Tile) -> usize {
        self.gather.channels[0] * tile.strip.channel_len()
    }

    /// Packs a plane, unless its slot holds it.
    fn fill_slot(&self, scratch: &mut Scratch, tile: &Tile, depth: usize) {
        let (slot, slot_len) = (depth % self.slots(), self.slot_len(tile));
        if scratch.planes[slot] != Some(depth) {
            let channels = self.gather.channels[0];
            let channels = tile.group * channels..(tile.group + 1) * channels;
            let target = &mut scratch.ring[slot * slot_len..][..slot_len];
            let Tile { item, strip, .. } = tile;
            let rows = &mut scratch.packed;
            PackStrip { source: &self.source, strip, item: *item, channels, depth, rows, target }.run(self.arch);
            scratch.planes[slot] = Some(depth);
        }
    }

    /// Writes one plane of a block of output channels; `kept` is its number among the sums.
    fn write(&self, scratch: &mut Scratch, tile: &Tile, depth: usize, block: &Block, kept: usize) {
        let axes = &self.gather.axes;
        let component_len = self.component_len(tile, block);
        let sums = &mut scratch.sums[kept * COMPONENTS * component_len..][..COMPONENTS * component_len];
        let (positions, channel_stride) = (tile.strip.positions(tile.size[1]), component_len / block.width);
        let (rows, row_len) = match self.lanes {
            Lanes::Positions => (1, component_len),
            Lanes::Channels => (tile.size[0], tile.size[1] * block.width),
        };
        let row_stride = tile.strip.width * block.width;
        self.arch.dispatch(Combine { sums, component_len, rows, row_len, row_stride });
        let rows = match self.lanes {
            Lanes::Positions => sums,
            Lanes::Channels => {
                let targets = scratch.rows.chunks_mut(component_len).take(OUTPUTS);
                for (sums, target) in sums.chunks(component_len).zip(targets) {
                    let (channels, stride) = (block.width, channel_stride);
                    self.arch.dispatch(ByChannel { channels, positions, sums, stride, target });
                }
                &mut scratch.rows[..]
            }
        };
        for index in 0..block.channels {
            let channel = tile.group * self.gather.channels[1] + block.first + index;
            let plane = (tile.item * self.gather.groups * self.gather.channels[1] + channel) * axes[0].output + depth;
            self.arch.dispatch(TileRows {
                output: &self.output,
                channel,
                plane: plane * axes[1].output * axes[2].output,
                size: [axes[1].output, axes[2].output],
                first: tile.first,
                tile: tile.size,
                phases: [OUTPUTS, 1],
                sums: &mut rows[index * channel_stride..],
                position_stride: 1,
                phase_stride: component_len,
                row_stride: tile.strip.width,
                room: &mut scratch.room,
            });
        }
    }
}

/// Makes the sums of products the rows of the output.
struct Combine<'a> {
    /// `[component]` to `[row of the group]`.
    sums: &'a mut [f32],
    component_len: usize,
    rows: usize,
    row_len: usize,
    row_stride: usize,
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, component_len, rows, row_len, row_stride } = self;
        assert!(row_len.is_multiple_of(S::F32_LANES) && COMPONENTS * component_len <= sums.len());
        assert!((rows - 1) * row_stride + row_len <= component_len);
        let sums = sums.as_mut_ptr();
        for row in 0..rows {
            for place in (row * row_stride..row * row_stride + row_len).step_by(S::F32_LANES) {
                let mut values = [simd.splat_f32s(0.0); COMPONENTS];
                for (component, value) in values.iter_mut().enumerate() {
                    // SAFETY: rows are whole vectors and inside of each component, as checked above.
                    *value = unsafe { load::<S>(sums.add(component * component_len + place)) };
                }
                for (component, value) in transform::output(simd, values).into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { store::<S>(sums.add(component * component_len + place), value) };
                }
            }
        }
    }
}

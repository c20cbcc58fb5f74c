//! The engine of the forward pass and of the data gradient: sums over channels and kernel elements, without im2col.
//!
//! A task computes one tile of rows and columns of one item and group, and marches along the depth with a ring of
//! packed input planes ([`super::pack`]). For each output plane, each phase of the output and each block of output
//! channels, register tiles ([`super::tile`]) sum over the input channels and the elements of the kernel, and the rows
//! are written out ([`super::rows`]).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;

use super::axis::{Axis, AxisTap};
use super::fill::FillPlane;
use super::pack::{SLACK, Source, Window};
use super::rows::{ByChannel, SharedOutput, TileRows};
use super::tile::{Block, LANES, Lanes, Registers, Tap, blocks};
use super::tiling::{Tiling, Work, lanes};
use super::weights::{PackedWeights, WeightStrides};
use super::{Input, Output};
use crate::{Element, parallel::for_each};

/// A convolution or a data gradient.
#[derive(Debug)]
pub(crate) struct Gather {
    /// Items of the batch.
    pub batch_size: usize,
    /// Groups.
    pub groups: usize,
    /// Channels of the gather's input and output, of one group.
    pub channels: [usize; 2],
    /// Depth, rows and columns.
    pub axes: [Axis; 3],
    /// Where the weights are.
    pub strides: WeightStrides,
}

impl Gather {
    /// Computes the whole output.
    pub(crate) fn run<E: Element>(&self, arch: Arch, input: Input<'_, E>, weight: &[f32], output: Output<'_, E>) {
        let output_len = output.values.len();
        if output_len == 0 {
            return;
        }
        let apart = self.elements_apart().then(|| self.of_elements(weight));
        let (inner, weight) = apart.as_ref().map_or((self, weight), |(inner, weight)| (inner, &weight[..]));
        let lanes = match apart {
            Some(_) => Lanes::Positions,
            None => lanes(&self.axes, self.channels, Registers::of(arch).lanes),
        };
        let blocks = blocks(arch, lanes, inner.channels[1]);
        let axes = if apart.is_some() { depth_alone(&inner.axes) } else { inner.axes.clone() };
        let weights = PackedWeights::new(arch, blocks, weight, self.groups, self.channels[0], &axes, inner.strides);
        let widest = weights.blocks().iter().map(|block| block.width).max().unwrap_or(1);
        let kept = if apart.is_some() { inner.channels[1] } else { widest };
        let pieces = self.batch_size * self.groups;
        let tiling = Tiling::new(&Work { axes: &inner.axes, channels: inner.channels, lanes, widest: kept, pieces });
        let (apart, widest) = (apart.is_some(), if apart.is_some() { 1 } else { widest });
        let size = self.axes.each_ref().map(|axis| axis.input);
        let source = Source { input, channels: self.groups * self.channels[0], size };
        let pass =
            Pass { arch, gather: self, weights, lanes, apart, widest, tiling, output: SharedOutput::new(output) };
        let [chunks, high, wide] = tiling.counts(&self.axes);
        let (tasks, next) = (pieces * high * wide * chunks, AtomicUsize::new(0));
        let work = |_| {
            let mut scratch = None;
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    break;
                }
                let scratch = scratch.get_or_insert_with(|| Scratch::new(&pass, source));
                let (chunk, task) = (task % chunks, task / chunks);
                let (column, task) = (task % wide, task / wide);
                let (row, piece) = (task % high, task / high);
                pass.task(scratch, piece, [row, column], chunk);
            }
        };
        let elements = self.axes.iter().map(|axis| axis.kernel).product::<usize>();
        let multiplications = output_len * self.channels[0] * elements;
        for_each((0..rayon::current_num_threads().min(tasks)).collect(), multiplications, work);
    }
}

/// The axes of a kernel of one row and column.
fn depth_alone(axes: &[Axis; 3]) -> [Axis; 3] {
    let mut axes = axes.clone();
    axes[1..].iter_mut().for_each(|axis| axis.taps = vec![vec![AxisTap { element: 0, read: 0 }]]);
    axes
}

/// One run of a gather.
pub(super) struct Pass<'a, 'b, E> {
    pub(super) arch: Arch,
    pub(super) gather: &'a Gather,
    pub(super) weights: PackedWeights,
    pub(super) lanes: Lanes,
    /// Whether the weights are those of [`Gather::of_elements`].
    apart: bool,
    pub(super) widest: usize,
    pub(super) tiling: Tiling,
    pub(super) output: SharedOutput<'b, E>,
}

/// What a thread holds.
pub(super) struct Scratch<'a, E> {
    source: Source<'a, E>,
    /// How the ring is laid out, if its zeros are written.
    layout: Option<Window>,
    /// `[slot][channel]` and slack.
    pub(super) ring: Vec<f32>,
    /// The plane that each slot holds.
    pub(super) planes: Vec<Option<usize>>,
    /// `[row phase][column phase]`, then as [`TapSums::target`]; or for each plane computed together `[row phase][column
    /// phase][position][channel]`.
    pub(super) sums: Vec<f32>,
    /// The sums of one plane as [`TapSums::target`], if they are not already so.
    by_channel: Vec<f32>,
    /// For [`TileRows`].
    room: Vec<f32>,
    /// For [`FillPlane`].
    packed: Vec<f32>,
    pub(super) taps: Vec<Tap>,
    /// Sums of the elements of the kernel, if they are apart.
    pub(super) apart: Vec<f32>,
}

impl<'a, E: Element> Scratch<'a, E> {
    fn new(pass: &Pass<'_, '_, E>, source: Source<'a, E>) -> Self {
        let Pass { gather, tiling, .. } = pass;
        let (slots, window) = (pass.slots(), pass.window_apart([0, 0], tiling.tile));
        let phases = pass.phases().iter().product::<usize>();
        let sums = phases * pass.widest * positions(&window, tiling.tile).next_multiple_of(LANES);
        Self {
            source,
            layout: None,
            ring: vec![0.0; slots * gather.channels[0] * window.channel_len() + 2 * SLACK],
            planes: vec![None; slots],
            sums: vec![0.0; pass.kept() * sums + LANES],
            by_channel: vec![0.0; if pass.lanes == Lanes::Channels { sums + LANES } else { 0 }],
            room: vec![0.0; 2 * tiling.tile[1].next_multiple_of(LANES) * pass.phases()[1]],
            packed: Vec::new(),
            taps: Vec::new(),
            apart: vec![0.0; if pass.apart { pass.weights.channels() * (window.channel_len() + 3 * LANES) } else { 0 }],
        }
    }
}

/// Flat positions of a tile.
pub(super) fn positions(window: &Window, tile: [usize; 2]) -> usize {
    (tile[0] - 1) * window.size[1] + tile[1]
}

/// The part of an output plane that is computed at once.
pub(super) struct Tile {
    pub(super) item: usize,
    pub(super) group: usize,
    pub(super) first: [usize; 2],
    pub(super) size: [usize; 2],
    pub(super) window: Window,
}

impl<E: Element> Pass<'_, '_, E> {
    /// Planes that the ring holds.
    pub(super) fn slots(&self) -> usize {
        self.tiling.slots(&self.gather.axes[0])
    }

    /// Phases of the output's rows and columns.
    pub(super) fn phases(&self) -> [usize; 2] {
        [self.gather.axes[1].phases(), self.gather.axes[2].phases()]
    }

    /// What a tile reads of a plane, packed as densely as can be.
    fn window(&self, first: [usize; 2], tile: [usize; 2]) -> Window {
        self.window_apart(first, tile).sharing_zeros(self.gather.axes[2].input, tile[1])
    }

    /// What a tile reads of a plane, each row apart.
    fn window_apart(&self, first: [usize; 2], tile: [usize; 2]) -> Window {
        let axes = &self.gather.axes[1..];
        let start = |axis: usize| axes[axis].first + (first[axis] * axes[axis].step) as isize;
        let reads = [axes[0].reads(), axes[1].reads()];
        Window::new([start(0), start(1)], [axes[0].step, axes[1].step], tile, [&reads[0], &reads[1]])
    }

    /// One tile of one chunk of the depth. `piece` is the item and group, `place` the number of the tile.
    fn task(&self, scratch: &mut Scratch<'_, E>, piece: usize, place: [usize; 2], chunk: usize) {
        let axes = &self.gather.axes;
        let first: [usize; 2] = std::array::from_fn(|axis| place[axis] * self.tiling.tile[axis]);
        let size: [usize; 2] =
            std::array::from_fn(|axis| self.tiling.tile[axis].min(axes[axis + 1].indices() - first[axis]));
        let (item, group) = (piece / self.gather.groups, piece % self.gather.groups);
        let tile = Tile { item, group, first, size, window: self.window(first, size) };
        self.clear(scratch, &tile);
        let start = chunk * self.tiling.depth;
        let end = (start + self.tiling.depth).min(axes[0].output);
        for depth in (start..end).step_by(self.tiling.planes) {
            self.planes(scratch, &tile, depth..(depth + self.tiling.planes).min(end));
        }
    }

    /// Empties the ring, and writes the zeros around what is inside of the volume, unless they are where they were. A
    /// tile that shares zeros reads a few after the last channel of a slot.
    fn clear(&self, scratch: &mut Scratch<'_, E>, tile: &Tile) {
        scratch.planes.fill(None);
        if scratch.layout != Some(tile.window) {
            if scratch.layout.is_some() {
                scratch.ring[..self.slots() * self.slot_len(tile) + SLACK].fill(0.0);
            }
            scratch.layout = Some(tile.window);
        }
    }

    /// A few output planes of a tile; each block of weights serves them all.
    fn planes(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, depths: Range<usize>) {
        for depth in depths.clone() {
            for (_, plane) in self.inputs(depth) {
                self.fill_slot(scratch, tile, plane);
            }
        }
        if self.apart {
            for depth in depths {
                self.plane_by_elements(scratch, tile, depth);
                self.write(scratch, tile, depth, &Block { first: 0, channels: 1, width: 1 }, 0);
            }
            return;
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

    /// Planes of sums that are kept at the same time.
    fn kept(&self) -> usize {
        if self.lanes == Lanes::Channels { self.tiling.planes } else { 1 }
    }

    /// The input planes that an output plane reads, each with the number of its tap among those of its phase.
    pub(super) fn inputs(&self, depth: usize) -> impl Iterator<Item = (usize, usize)> {
        let axis = &self.gather.axes[0];
        let first = axis.first + (depth / axis.phases() * axis.step) as isize;
        axis.taps[depth % axis.phases()].iter().enumerate().filter_map(move |(number, tap)| {
            let plane = usize::try_from(first + tap.read as isize).ok()?;
            (plane < axis.input).then_some((number, plane))
        })
    }

    /// Length of the sums of one phase.
    pub(super) fn phase_stride(&self, tile: &Tile) -> usize {
        self.widest * positions(&tile.window, tile.size).next_multiple_of(LANES)
    }

    /// Length of one packed plane of a tile.
    pub(super) fn slot_len(&self, tile: &Tile) -> usize {
        self.gather.channels[0] * tile.window.channel_len()
    }

    /// Packs a plane, unless its slot holds it.
    fn fill_slot(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, plane: usize) {
        let (slot, slot_len) = (plane % self.slots(), self.slot_len(tile));
        if scratch.planes[slot] != Some(plane) {
            let channels = self.gather.channels[0];
            let channels = tile.group * channels..(tile.group + 1) * channels;
            let target = &mut scratch.ring[slot * slot_len..][..slot_len];
            self.arch.dispatch(FillPlane {
                source: &scratch.source,
                window: &tile.window,
                item: tile.item,
                channels,
                depth: plane,
                room: &mut scratch.packed,
                target,
            });
            scratch.planes[slot] = Some(plane);
        }
    }

    /// Writes one plane of a block of output channels; `kept` is its number among the sums.
    fn write(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, depth: usize, block: &Block, kept: usize) {
        let axes = &self.gather.axes;
        let (positions, phases) = (positions(&tile.window, tile.size), self.phases().iter().product::<usize>());
        let channel_stride = positions.next_multiple_of(LANES);
        if self.lanes == Lanes::Channels {
            for phase in 0..phases {
                self.arch.dispatch(ByChannel {
                    channels: block.width,
                    positions,
                    sums: &scratch.sums[(kept * phases + phase) * self.phase_stride(tile)..],
                    stride: channel_stride,
                    target: &mut scratch.by_channel[phase * self.phase_stride(tile)..],
                });
            }
        }
        let sums = if self.lanes == Lanes::Channels { &mut scratch.by_channel } else { &mut scratch.sums };
        for index in 0..block.channels {
            let channel = tile.group * self.gather.channels[1] + block.first + index;
            let plane = (tile.item * self.gather.groups * self.gather.channels[1] + channel) * axes[0].output + depth;
            let rows = TileRows {
                output: &self.output,
                channel,
                plane: plane * axes[1].output * axes[2].output,
                size: [axes[1].output, axes[2].output],
                first: tile.first,
                tile: tile.size,
                phases: self.phases(),
                sums: &mut sums[index * channel_stride..],
                position_stride: 1,
                phase_stride: self.phase_stride(tile),
                row_stride: tile.window.size[1],
                room: &mut scratch.room,
            };
            self.arch.dispatch(rows);
        }
    }
}

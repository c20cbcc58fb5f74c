//! One run of a gather: its tiles, planes and blocks of output channels.

use std::ops::Range;

use half::bf16;
use pulp::{Arch, Simd, WithSimd};

use crate::buffer::Lines;
use crate::conv::gather::axis::{Axis, AxisTap};
use crate::conv::gather::problem::Gather;
use crate::conv::matrix::fill::{FillPairs, Plane, RowRoom};
use crate::conv::matrix::halves;
use crate::conv::matrix::tiling::{Lens, Tiling, sixteens, window};
use crate::conv::matrix::weights::{BLOCK, BLOCK_LEN, TileWeights};
use crate::conv::packing::planes::{Layout, Source, Window};
use crate::conv::packing::rows::{SharedOutput, TileRows};
use crate::conv::tasks::{March, Place};
use crate::conv::tiles::tap_sums::LANES;
use crate::tile_products::{Operand, Pair, Product, ROWS, Steps, TERMS, Tiles};

/// One run of a gather.
pub(super) struct Pass<'a, 'b> {
    pub arch: Arch,
    pub gather: &'a Gather,
    pub source: Source<'a, bf16>,
    pub weights: TileWeights,
    pub tiling: Tiling,
    pub output: SharedOutput<'b, bf16>,
}

/// What a thread holds.
pub(super) struct Scratch {
    march: March,
    /// How the ring is laid out, if its zeros are written.
    layout: Option<Layout>,
    /// `[slot][pair of channels]`, each as the window says.
    ring: Lines<Pair>,
    /// The plane that each slot holds.
    planes: Vec<Option<usize>>,
    /// `[row phase][column phase][output channel of a block][position]`.
    sums: Lines<f32>,
    /// For [`TileRows`].
    room: Vec<f32>,
    /// For [`Plane`].
    rows: RowRoom,
    /// Of each phase.
    steps: Vec<Steps>,
}

/// Lengths of what a thread holds, for a gather that is divided in this way.
pub(super) struct ScratchLens {
    lens: Lens,
    room: usize,
    rows: usize,
    /// Of the phase that has the most.
    steps: usize,
}

impl ScratchLens {
    pub(super) fn of(gather: &Gather, tiling: &Tiling) -> Self {
        let window = window(&gather.axes, [0, 0], tiling.tile);
        let taps: usize = gather.axes.iter().map(Axis::phase_taps).product();
        Self {
            lens: Lens::of(gather, &window, tiling.tile),
            room: tiling.tile[1].next_multiple_of(LANES) * gather.axes[2].phases(),
            rows: (window.size[1] * window.step[1]).min(gather.axes[2].input),
            steps: taps * gather.channels[0].div_ceil(TERMS),
        }
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        let Self { lens, room, rows, steps } = self;
        let lists = lens.slots * size_of::<Option<usize>>() + lens.phases * size_of::<Steps>();
        let steps = lens.phases * steps * size_of::<[usize; 2]>();
        lens.bytes() + room * size_of::<f32>() + RowRoom::bytes(*rows) + steps + lists
    }
}

impl Scratch {
    pub(super) fn new(lens: &ScratchLens) -> Self {
        let ScratchLens { lens, room, rows, steps } = *lens;
        Self {
            march: March::default(),
            layout: None,
            ring: Lines::new(lens.ring()),
            planes: vec![None; lens.slots],
            sums: Lines::new(lens.sums()),
            room: vec![0.0; room],
            rows: RowRoom::new(rows),
            steps: (0..lens.phases).map(|_| Steps::with_capacity(steps)).collect(),
        }
    }
}

/// The part of the output planes that is computed by a task.
struct Tile {
    item: usize,
    group: usize,
    first: [usize; 2],
    size: [usize; 2],
    window: Window,
    lens: Lens,
}

impl Tile {
    /// Where sixteen positions begin, and how far away the next sixteen do, if there are any.
    fn positions(&self) -> impl Iterator<Item = (usize, usize)> {
        let width = self.window.size[1];
        let (len, in_a_row) = sixteens(self.size, width);
        let place = move |at: usize| in_a_row.map_or(at * ROWS, |whole| at / whole * width + at % whole * ROWS);
        (0..len).step_by(2).map(move |at| (place(at), if at + 1 < len { place(at + 1) - place(at) } else { 0 }))
    }
}

impl Pass<'_, '_> {
    /// One plane of one tile.
    pub(super) fn task(&self, tiles: &Tiles, scratch: &mut Scratch, place: Place) {
        let axes = &self.gather.axes;
        let first: [usize; 2] = std::array::from_fn(|axis| place.tile[axis] * self.tiling.tile[axis]);
        let size: [usize; 2] =
            std::array::from_fn(|axis| self.tiling.tile[axis].min(axes[axis + 1].indices() - first[axis]));
        let (item, group) = (place.piece / self.gather.groups, place.piece % self.gather.groups);
        let window = window(axes, first, size);
        let tile = Tile { item, group, first, size, window, lens: Lens::of(self.gather, &window, size) };
        if !scratch.march.goes_on(place) {
            scratch.planes.fill(None);
            let layout = window.layout([axes[1].input, axes[2].input]);
            if scratch.layout.replace(layout).is_some_and(|before| before != layout) {
                scratch.ring.fill(0);
            }
        }
        self.plane(tiles, scratch, &tile, place.step);
    }

    /// One output plane.
    fn plane(&self, tiles: &Tiles, scratch: &mut Scratch, tile: &Tile, depth: usize) {
        for (_, plane) in self.inputs(depth) {
            self.fill(scratch, tile, plane);
        }
        self.list_steps(scratch, tile, depth);
        for block in 0..self.weights.blocks {
            let channels = (self.gather.channels[1] - block * BLOCK).min(BLOCK);
            self.multiply(tiles, scratch, tile, block, channels);
            self.write(scratch, tile, depth, block * BLOCK, channels);
        }
    }

    /// The input planes that an output plane reads, each with its tap.
    fn inputs(&self, depth: usize) -> impl Iterator<Item = (AxisTap, usize)> {
        let axis = &self.gather.axes[0];
        let first = axis.first + (depth / axis.phases() * axis.step) as isize;
        axis.taps[depth % axis.phases()].iter().filter_map(move |tap| {
            let plane = usize::try_from(first + tap.read as isize).ok()?;
            (plane < axis.input).then_some((*tap, plane))
        })
    }

    /// Packs a plane, unless its slot holds it.
    fn fill(&self, scratch: &mut Scratch, tile: &Tile, plane: usize) {
        let (channels, slot) = (self.gather.channels[0], plane % tile.lens.slots);
        if scratch.planes[slot].replace(plane) == Some(plane) {
            return;
        }
        let target = &mut scratch.ring[slot * tile.lens.slot..][..tile.lens.slot];
        let plane = Plane {
            source: &self.source,
            window: &tile.window,
            item: tile.item,
            channels: tile.group * channels..(tile.group + 1) * channels,
            depth: plane,
            stride: tile.lens.pair_stride,
            room: &mut scratch.rows,
        };
        self.arch.dispatch(FillPairs { plane, target });
    }

    /// Lists what each phase of an output plane adds up: elements of the kernel that lie inside, times input channels.
    fn list_steps(&self, scratch: &mut Scratch, tile: &Tile, depth: usize) {
        let [_, rows, columns] = &self.gather.axes;
        let TileWeights { inputs, terms, .. } = self.weights;
        let phases = rows.taps.iter().flat_map(|rows| columns.taps.iter().map(move |columns| (rows, columns)));
        for (steps, (row_taps, column_taps)) in scratch.steps.iter_mut().zip(phases) {
            steps.clear();
            for (tap, plane) in self.inputs(depth) {
                let slot = plane % tile.lens.slots * tile.lens.slot;
                // The same channels at neighbouring places follow each other: they are in the first-level cache.
                for input in 0..inputs {
                    let slot = slot + input * (terms / 2) * tile.lens.pair_stride;
                    for row in row_taps {
                        for column in column_taps {
                            let element = (tap.element * rows.kernel + row.element) * columns.kernel + column.element;
                            let place = slot + tile.window.offset(row.read, column.read);
                            steps.push((element * inputs + input) * BLOCK_LEN, place);
                        }
                    }
                }
            }
        }
    }

    /// The sums of a block of output channels, some steps at all positions before the next steps.
    fn multiply(&self, tiles: &Tiles, scratch: &mut Scratch, tile: &Tile, block: usize, channels: usize) {
        let Lens { pair_stride, sums_stride, .. } = tile.lens;
        let (weights, most) = (self.weights.block(tile.group, block), tiles.unit().steps_at_once());
        for (steps, sums) in scratch.steps.iter().zip(scratch.sums.chunks_exact_mut(BLOCK * sums_stride)) {
            for of in steps.pieces(most) {
                for (position, next) in tile.positions() {
                    tiles.multiply(Product {
                        a: Operand { values: weights, stride: TERMS, count: channels, next: ROWS * TERMS },
                        b: Operand {
                            values: &scratch.ring[position..],
                            stride: pair_stride,
                            count: if next > 0 { 2 * ROWS } else { ROWS },
                            next,
                        },
                        steps,
                        of: of.clone(),
                        terms: self.weights.terms,
                        sums: &mut sums[position..],
                        stride: sums_stride,
                        right: next,
                        below: ROWS * sums_stride,
                        add: of.start > 0,
                    });
                }
            }
        }
    }

    /// Writes the output channels of a block, from `first` on, of one plane.
    fn write(&self, scratch: &mut Scratch, tile: &Tile, depth: usize, first: usize, channels: usize) {
        let first = tile.group * self.gather.channels[1] + first;
        self.arch.dispatch(RoundedBlock { pass: self, scratch, tile, depth, channels: first..first + channels });
    }
}

/// Sums of some output channels of a plane, which are written, rounded by one instruction.
struct RoundedBlock<'a, 'b> {
    pass: &'a Pass<'b, 'b>,
    scratch: &'a mut Scratch,
    tile: &'a Tile,
    depth: usize,
    /// Numbered over all groups.
    channels: Range<usize>,
}

impl WithSimd for RoundedBlock<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { pass, scratch, tile, depth, channels } = self;
        let [depths, rows, columns] = &pass.gather.axes;
        let item = tile.item * pass.gather.groups * pass.gather.channels[1];
        for (index, channel) in channels.enumerate() {
            let rows = TileRows {
                output: &pass.output,
                channel,
                plane: ((item + channel) * depths.output + depth) * rows.output * columns.output,
                size: [rows.output, columns.output],
                first: tile.first,
                tile: tile.size,
                phases: [rows.phases(), columns.phases()],
                sums: &mut scratch.sums[index * tile.lens.sums_stride..],
                phase_stride: BLOCK * tile.lens.sums_stride,
                row_stride: tile.window.size[1],
                room: &mut scratch.room,
            };
            // SAFETY: tiles, chunks, channels and items are each one task's: nobody else has these elements now. Whoever computes in
            // tiles can round as well.
            unsafe { halves::finish(rows) };
        }
    }
}

//! One run of a [`Gather`]: its tiles, planes and blocks of output channels.

use std::ops::Range;

use pulp::Arch;

use crate::Stored;
use crate::conv::direct::tiling::Tiling;
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::Gather;
use crate::conv::packing::ahead::Ahead;
use crate::conv::packing::fill::FillPlane;
use crate::conv::packing::planes::{Layout, SLACK, Source, Window};
use crate::conv::packing::rows::{ByChannel, SharedOutput, TileRows};
use crate::conv::packing::weights::PackedWeights;
use crate::conv::tasks::{March, Place};
use crate::conv::tiles::tap_sums::{Block, LANES, Lanes, Tap, steps};
use crate::conv::transforms::depth_transform::{Carried, DepthTransform, MixPlanes, PRODUCTS, PackGroup};

/// One run of a gather.
pub(super) struct Pass<'a, 'b, E> {
    pub(super) arch: Arch,
    pub(super) gather: &'a Gather,
    /// The depth that is computed: that of the gather, or of the products.
    pub(super) depth: Axis,
    pub(super) transform: Option<DepthTransform>,
    pub(super) weights: PackedWeights,
    pub(super) lanes: Lanes,
    /// Whether the weights are those of [`Gather::of_elements`].
    pub(super) apart: bool,
    pub(super) widest: usize,
    pub(super) tiling: Tiling,
    pub(super) output: &'b SharedOutput<'b, E>,
}

/// What a thread holds.
pub(super) struct Scratch<'a, E> {
    source: Source<'a, E>,
    march: March,
    /// How the ring is laid out, if its zeros are written.
    layout: Option<Layout>,
    /// `[slot][channel]` and slack.
    pub(super) ring: Vec<f32>,
    /// The plane that each slot holds.
    pub(super) planes: Vec<Option<usize>>,
    /// Planes at the end of a group, before they were transformed, that are the first of the next group's.
    carried: Vec<f32>,
    /// The group that they are for.
    carried_to: Option<usize>,
    /// `[row phase][column phase]`, then as [`TapSums::target`]; or for each plane computed together `[row phase][column
    /// phase][position][channel]`.
    pub(super) sums: Vec<f32>,
    /// The sums of one plane as [`TapSums::target`], if they are not already so.
    by_channel: Vec<f32>,
    /// For [`TileRows`].
    room: Vec<f32>,
    /// For [`FillPlane`], or [`PackGroup`].
    packed: Vec<f32>,
    pub(super) taps: Vec<Tap>,
    /// Sums of the elements of the kernel, if they are apart.
    pub(super) apart: Vec<f32>,
    /// What is read and written next.
    pub(super) ahead: Ahead,
}

/// Lengths of what a thread holds.
pub(super) struct ScratchLens {
    slots: usize,
    ring: usize,
    carried: usize,
    sums: usize,
    by_channel: usize,
    room: usize,
    packed: usize,
    taps: usize,
    apart: usize,
}

impl ScratchLens {
    pub(super) fn of<E: Stored>(pass: &Pass<'_, '_, E>) -> Self {
        let Pass { gather, tiling, .. } = pass;
        let (slots, window) = (pass.slots(), pass.window_apart([0, 0], tiling.tile));
        let phases = pass.phases().iter().product::<usize>();
        let sums = phases * pass.widest * positions(&window, tiling.tile).next_multiple_of(LANES);
        Self {
            slots,
            carried: pass.carried() * gather.channels[0] * window.channel_len(),
            ring: slots * gather.channels[0] * window.channel_len() + 2 * SLACK,
            sums: pass.kept() * sums + LANES,
            by_channel: if pass.lanes == Lanes::Channels { sums + LANES } else { 0 },
            room: tiling.tile[1].next_multiple_of(LANES) * pass.phases()[1],
            packed: match (window.size[1] * window.step[1]).min(gather.axes[2].input) {
                row if pass.transform.is_some() => PRODUCTS * row.next_multiple_of(LANES),
                row => row,
            },
            taps: pass.depth.kernel * gather.axes[1].kernel * gather.axes[2].kernel,
            apart: if pass.apart { pass.weights.channels() * (window.channel_len() + 3 * LANES) } else { 0 },
        }
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        let Self { slots, ring, carried, sums, by_channel, room, packed, taps, apart } = self;
        let floats = ring + carried + sums + by_channel + room + packed + apart;
        floats * size_of::<f32>() + slots * size_of::<Option<usize>>() + taps * size_of::<Tap>()
    }
}

impl<'a, E: Stored> Scratch<'a, E> {
    pub(super) fn new(pass: &Pass<'_, '_, E>, source: Source<'a, E>) -> Self {
        let lens = ScratchLens::of(pass);
        Self {
            source,
            march: March::default(),
            layout: None,
            ring: vec![0.0; lens.ring],
            planes: vec![None; lens.slots],
            carried: vec![0.0; lens.carried],
            carried_to: None,
            sums: vec![0.0; lens.sums],
            by_channel: vec![0.0; lens.by_channel],
            room: vec![0.0; lens.room],
            packed: Vec::with_capacity(lens.packed),
            taps: Vec::with_capacity(lens.taps),
            apart: vec![0.0; lens.apart],
            ahead: Ahead::default(),
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

impl<E: Stored> Pass<'_, '_, E> {
    /// Planes that the ring holds.
    pub(super) fn slots(&self) -> usize {
        self.tiling.slots(&self.depth)
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

    /// A few planes of one tile.
    pub(super) fn task(&self, scratch: &mut Scratch<'_, E>, place: Place) {
        let axes = &self.gather.axes;
        let first: [usize; 2] = std::array::from_fn(|axis| place.tile[axis] * self.tiling.tile[axis]);
        let size: [usize; 2] =
            std::array::from_fn(|axis| self.tiling.tile[axis].min(axes[axis + 1].indices() - first[axis]));
        let (item, group) = (place.piece / self.gather.groups, place.piece % self.gather.groups);
        let tile = Tile { item, group, first, size, window: self.window(first, size) };
        if !scratch.march.goes_on(place) {
            self.clear(scratch, &tile);
        }
        let start = place.step * self.tiling.planes;
        self.planes(scratch, &tile, start..(start + self.tiling.planes).min(self.depth.output));
    }

    /// Empties the ring, and writes the zeros around what is inside of the volume, unless they are where they were. A
    /// tile that shares zeros reads a few after the last channel of a slot.
    fn clear(&self, scratch: &mut Scratch<'_, E>, tile: &Tile) {
        scratch.planes.fill(None);
        scratch.carried_to = None;
        let layout = tile.window.layout([self.gather.axes[1].input, self.gather.axes[2].input]);
        if scratch.layout.replace(layout).is_some_and(|before| before != layout) {
            scratch.ring[..self.slots() * self.slot_len(tile) + SLACK].fill(0.0);
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
                Lanes::Channels => self.planes_by_channels(scratch, tile, depths.clone(), block),
                Lanes::Positions if self.transform.is_some() => {
                    self.look_ahead(scratch, tile, depths.clone(), block);
                    for (kept, depth) in depths.clone().enumerate() {
                        self.plane_by_positions(scratch, tile, depth, block, kept);
                    }
                }
                Lanes::Positions => {
                    for depth in depths.clone() {
                        self.plane_by_positions(scratch, tile, depth, block, 0);
                        self.write(scratch, tile, depth, block, 0);
                    }
                    continue;
                }
            }
            match &self.transform {
                None => {
                    for (kept, depth) in depths.clone().enumerate() {
                        self.write(scratch, tile, depth, block, kept);
                    }
                }
                Some(transform) => self.combine(scratch, tile, depths.clone(), block, transform),
            }
        }
    }

    /// Writes the output planes that come of products.
    fn combine(
        &self,
        scratch: &mut Scratch<'_, E>,
        tile: &Tile,
        depths: Range<usize>,
        block: &Block,
        transform: &DepthTransform,
    ) {
        let (phases, phase_stride) = (self.phases().iter().product::<usize>(), self.phase_stride(tile));
        let (products, plane_len) = (self.depth.phases(), phases * phase_stride);
        let [rows, columns] = tile.size;
        let runs = match self.lanes {
            Lanes::Positions => [1, block.width * positions(&tile.window, tile.size).next_multiple_of(LANES), 0],
            Lanes::Channels => [rows, columns * block.width, tile.window.size[1] * block.width],
        };
        for (kept, depth) in depths.enumerate().step_by(products) {
            for phase in 0..phases {
                let sums = &mut scratch.sums[kept * plane_len + phase * phase_stride..];
                self.arch.dispatch(MixPlanes::runs(transform.of_products(), sums, plane_len, runs));
            }
            for (index, depth) in transform.outputs(depth / products).enumerate() {
                self.write(scratch, tile, depth, block, kept + index);
            }
        }
    }

    /// Planes of sums that are held at the same time.
    fn kept(&self) -> usize {
        if self.lanes == Lanes::Channels || self.transform.is_some() { self.tiling.planes } else { 1 }
    }

    /// Planes of the volume that a group of transformed planes has in common with the next one.
    fn carried(&self) -> usize {
        self.transform.as_ref().map_or(0, DepthTransform::shared)
    }

    /// The input planes that an output plane reads, each with the number of its tap among those of its phase.
    pub(super) fn inputs(&self, depth: usize) -> impl Iterator<Item = (usize, usize)> {
        let axis = &self.depth;
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

    /// Packs a plane, unless its slot holds it; with all of its group, where planes are transformed.
    fn fill_slot(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, plane: usize) {
        let (slot, slot_len) = (plane % self.slots(), self.slot_len(tile));
        if scratch.planes[slot] == Some(plane) {
            return;
        }
        let Some(transform) = &self.transform else {
            self.fill(scratch, tile, plane, slot);
            scratch.planes[slot] = Some(plane);
            return;
        };
        let (products, input) = (self.depth.kernel, self.gather.axes[0].input);
        let (group, channels) = (plane / products, self.gather.channels[0]);
        let (first, is_next) = (group * products % self.slots(), scratch.carried_to == Some(group));
        let mut depths = [None; PRODUCTS];
        for (index, (depth, read)) in transform.inputs(group).zip(&mut depths).enumerate() {
            *read = usize::try_from(depth).ok().filter(|depth| *depth < input);
            scratch.planes[first + index] = Some(group * products + index);
        }
        let pack = PackGroup {
            source: &scratch.source,
            window: &tile.window,
            item: tile.item,
            channels: tile.group * channels..(tile.group + 1) * channels,
            depths,
            mix: transform.of_inputs(),
            room: &mut scratch.packed,
            carried: Carried { count: self.carried(), known: is_next, planes: &mut scratch.carried },
            target: &mut scratch.ring[first * slot_len..][..products * slot_len],
            strides: [slot_len, tile.window.channel_len()],
            ahead: if is_next && self.lanes == Lanes::Positions { scratch.source.channels_ahead() } else { 0 },
        };
        pack.run(self.arch);
        scratch.carried_to = Some(group + 1);
    }

    /// Plans to ask for what is written when the products of a block are computed, and, with the last block, for what is packed behind
    /// `depths`.
    fn look_ahead(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, depths: Range<usize>, block: &Block) {
        let Some(transform) = &self.transform else { return };
        let (axes, products) = (&self.gather.axes, self.depth.phases());
        let inputs = tile.group * self.gather.channels[0]..(tile.group + 1) * self.gather.channels[0];
        let is_last = block.first + block.channels == self.gather.channels[1];
        let next = (is_last && depths.end < self.depth.output)
            .then(|| transform.inputs(depths.end / products).skip(self.carried()));
        let next = next.into_iter().flatten().filter_map(|depth| usize::try_from(depth).ok());
        let next = next.filter(|depth| *depth < axes[0].input);
        let reads = next.map(|depth| scratch.source.part(&tile.window, tile.item, inputs.clone(), depth));
        let [rows, columns]: [Range<usize>; 2] = std::array::from_fn(|axis| {
            let phases = self.phases()[axis];
            let first = tile.first[axis] * phases;
            first..(first + tile.size[axis] * phases).min(axes[axis + 1].output)
        });
        let channels = [block.channels, axes.iter().map(|axis| axis.output).product()];
        let outputs = depths.clone().step_by(products).flat_map(|depth| transform.outputs(depth / products));
        let writes = outputs.map(|depth| {
            let first = self.output_plane(tile, block.first, depth) + rows.start * axes[2].output + columns.start;
            self.output.part(first, columns.len(), [rows.len(), axes[2].output], channels)
        });
        let runs = depths.len() * self.phases().iter().product::<usize>();
        scratch
            .ahead
            .plan(reads.chain(writes), runs * steps(self.gather.channels[0], positions(&tile.window, tile.size)));
    }

    /// The element at which an output plane of a channel of the tile's group begins.
    fn output_plane(&self, tile: &Tile, channel: usize, depth: usize) -> usize {
        let axes = &self.gather.axes;
        let channel = (tile.item * self.gather.groups + tile.group) * self.gather.channels[1] + channel;
        (channel * axes[0].output + depth) * axes[1].output * axes[2].output
    }

    /// Packs a plane of the volume.
    fn fill(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, depth: usize, slot: usize) {
        let (channels, slot_len) = (self.gather.channels[0], self.slot_len(tile));
        self.arch.dispatch(FillPlane {
            source: &scratch.source,
            window: &tile.window,
            item: tile.item,
            channels: tile.group * channels..(tile.group + 1) * channels,
            depth,
            room: &mut scratch.packed,
            target: &mut scratch.ring[slot * slot_len..][..slot_len],
        });
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
        let sums = match self.lanes {
            Lanes::Channels => &mut scratch.by_channel[..],
            Lanes::Positions => &mut scratch.sums[kept * phases * self.phase_stride(tile)..],
        };
        for index in 0..block.channels {
            let rows = TileRows {
                output: self.output,
                channel: tile.group * self.gather.channels[1] + block.first + index,
                plane: self.output_plane(tile, block.first + index, depth),
                size: [axes[1].output, axes[2].output],
                first: tile.first,
                tile: tile.size,
                phases: self.phases(),
                sums: &mut sums[index * channel_stride..],
                phase_stride: self.phase_stride(tile),
                row_stride: tile.window.size[1],
                room: &mut scratch.room,
            };
            self.arch.dispatch(rows);
        }
    }
}

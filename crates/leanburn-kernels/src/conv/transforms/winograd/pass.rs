//! One run with transformed rows: its tiles, planes and blocks of output channels.

use pulp::{Arch, Simd, WithSimd};

use super::packing::{PackStrip, Strip};
use super::plan::Plan;
use super::tiling::Tiling;
use super::weights::TransformedWeights;
use super::{COMPONENTS, OUTPUTS};
use crate::Stored;
use crate::conv::gather::problem::Gather;
use crate::conv::packing::ahead::Ahead;
use crate::conv::packing::planes::{SLACK, Source};
use crate::conv::packing::rows::{ByChannel, SharedOutput, TileRows};
use crate::conv::tasks::{March, Place};
use crate::conv::tiles::tap_sums::{Block, LANES, Lanes, Tap};
use crate::conv::transforms::minimal_filter;
use crate::simd::{load, store};
use crate::size::{product, reach};

/// Planes of sums that are held at the same time.
fn kept(lanes: Lanes, tiling: &Tiling) -> usize {
    if lanes == Lanes::Channels { tiling.planes } else { 1 }
}

/// One run.
pub(super) struct Pass<'a, 'b, E> {
    pub(super) arch: Arch,
    pub(super) gather: &'a Gather,
    pub(super) source: Source<'a, E>,
    pub(super) weights: TransformedWeights,
    pub(super) lanes: Lanes,
    /// Its rows are groups of rows.
    pub(super) tiling: Tiling,
    pub(super) output: SharedOutput<'b, E>,
}

/// What a thread holds.
pub(super) struct Scratch {
    march: March,
    /// `[slot][channel]` as [`PackStrip::target`], and slack.
    pub(super) ring: Vec<f32>,
    /// The plane that each slot holds.
    pub(super) planes: Vec<Option<usize>>,
    /// For each plane computed together `[component]`, then `[channel][position]` or `[position][channel]`.
    pub(super) sums: Vec<f32>,
    /// The rows of one plane, `[row of the group][channel][position]`, if they are not already so among the sums.
    pub(super) rows: Vec<f32>,
    /// For [`TileRows`].
    pub(super) room: Vec<f32>,
    /// For [`PackStrip`].
    pub(super) packed: Vec<f32>,
    pub(super) taps: Vec<Tap>,
    /// What is read and written next.
    pub(super) ahead: Ahead,
}

/// Lengths of what a thread holds.
pub(super) struct ScratchLens {
    pub(super) ring: usize,
    pub(super) slots: usize,
    pub(super) sums: usize,
    pub(super) rows: usize,
    pub(super) room: usize,
    pub(super) packed: usize,
    pub(super) taps: usize,
}

impl ScratchLens {
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        let Plan { gather, lanes, tiling, .. } = plan;
        let (slots, strip) = (tiling.slots(gather), Strip::apart(gather, [0, 0], tiling.tile));
        let component = plan.widest * strip.positions(tiling.tile[1]).next_multiple_of(LANES);
        Self {
            ring: slots * gather.channels[0] * strip.channel_len() + 2 * SLACK,
            slots,
            sums: kept(*lanes, tiling) * COMPONENTS * component,
            rows: if *lanes == Lanes::Channels { OUTPUTS * component } else { 0 },
            room: tiling.tile[1].next_multiple_of(LANES),
            packed: strip.room(),
            taps: gather.axes[0].kernel * gather.axes[2].kernel,
        }
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        let Self { ring, slots, sums, rows, room, packed, taps } = self;
        let floats = ring + sums + rows + room + packed;
        floats * size_of::<f32>() + slots * size_of::<Option<usize>>() + taps * size_of::<Tap>()
    }
}

impl Scratch {
    pub(super) fn new(lens: &ScratchLens) -> Self {
        Self {
            march: March::default(),
            ring: vec![0.0; lens.ring],
            planes: vec![None; lens.slots],
            sums: vec![0.0; lens.sums],
            rows: vec![0.0; lens.rows],
            room: vec![0.0; lens.room],
            packed: Vec::with_capacity(lens.packed),
            taps: Vec::with_capacity(lens.taps),
            ahead: Ahead::default(),
        }
    }
}

/// The part of an output plane that is computed at once: some groups of rows.
pub(super) struct Tile {
    pub(super) item: usize,
    pub(super) group: usize,
    pub(super) first: [usize; 2],
    pub(super) size: [usize; 2],
    pub(super) strip: Strip,
}

impl<E: Stored> Pass<'_, '_, E> {
    /// Planes that the ring holds.
    pub(super) fn slots(&self) -> usize {
        self.tiling.slots(self.gather)
    }

    /// A few planes of one tile.
    pub(super) fn task(&self, scratch: &mut Scratch, place: Place) {
        let [depth, rows, columns] = self.gather.axes.each_ref().map(|axis| axis.output);
        let most = [rows.div_ceil(OUTPUTS), columns];
        let first: [usize; 2] = std::array::from_fn(|axis| place.tile[axis] * self.tiling.tile[axis]);
        let size: [usize; 2] = std::array::from_fn(|axis| self.tiling.tile[axis].min(most[axis] - first[axis]));
        let (item, group) = (place.piece / self.gather.groups, place.piece % self.gather.groups);
        let tile = Tile { item, group, first, size, strip: Strip::shared(self.gather, first, size) };
        if !scratch.march.goes_on(place) {
            scratch.planes.fill(None);
            // A tile that shares zeros reads a few after the last channel of a slot.
            for slot in 0..=self.slots() {
                scratch.ring[slot * self.slot_len(&tile)..][..SLACK].fill(0.0);
            }
        }
        let start = place.step * self.tiling.planes;
        self.planes(scratch, &tile, start..(start + self.tiling.planes).min(depth));
    }

    /// The input planes that an output plane reads, each with the number of its tap.
    pub(super) fn inputs(&self, depth: usize) -> impl Iterator<Item = (usize, usize)> {
        let axis = &self.gather.axes[0];
        let first = axis.first + (depth * axis.step) as isize;
        axis.taps[0].iter().enumerate().filter_map(move |(number, tap)| {
            let plane = usize::try_from(first + tap.read as isize).ok()?;
            (plane < axis.input).then_some((number, plane))
        })
    }

    /// Length of one packed plane of a tile.
    pub(super) fn slot_len(&self, tile: &Tile) -> usize {
        self.gather.channels[0] * tile.strip.channel_len()
    }

    /// Packs a plane, unless its slot holds it.
    pub(super) fn fill_slot(&self, scratch: &mut Scratch, tile: &Tile, depth: usize) {
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
    pub(super) fn write(&self, scratch: &mut Scratch, tile: &Tile, depth: usize, block: &Block, kept: usize) {
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
                phase_stride: component_len,
                row_stride: tile.strip.width,
                room: &mut scratch.room,
            });
        }
    }
}

/// Makes the sums of products the rows of the output.
pub(super) struct Combine<'a> {
    /// `[component]` to `[row of the group]`.
    pub(super) sums: &'a mut [f32],
    pub(super) component_len: usize,
    pub(super) rows: usize,
    pub(super) row_len: usize,
    pub(super) row_stride: usize,
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, component_len, rows, row_len, row_stride } = self;
        assert!(row_len.is_multiple_of(S::F32_LANES) && product(&[COMPONENTS, component_len]) <= sums.len());
        assert!(reach(rows, row_stride, row_len) <= component_len);
        let sums = sums.as_mut_ptr();
        for row in 0..rows {
            for place in (row * row_stride..row * row_stride + row_len).step_by(S::F32_LANES) {
                let mut values = [simd.splat_f32s(0.0); COMPONENTS];
                for (component, value) in values.iter_mut().enumerate() {
                    // SAFETY: rows are whole vectors and inside of each component, as checked above.
                    *value = unsafe { load::<S>(sums.add(component * component_len + place)) };
                }
                for (component, value) in minimal_filter::output::<_, OUTPUTS>(simd, values).into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { store::<S>(sums.add(component * component_len + place), value) };
                }
            }
        }
    }
}

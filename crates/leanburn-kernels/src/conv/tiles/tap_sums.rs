//! Register tiles: the sums over channels and taps for a few output channels at many flat positions.
//!
//! `sum[o][p] = Σ over channels c and taps t of weight[c][t][o] * input[c][p + offset(t)]`. A tile of `o` times a few
//! vectors of `p` stays in registers while `c` and `t` run: each loaded vector serves every `o`, each broadcast weight
//! every vector. The tiles below are the largest that leave registers for one row of vectors and a weight, and one to spare.

use pulp::{Arch, Simd, WithSimd};

use crate::conv::packing::ahead::Ahead;
use crate::simd::{apart, few_registers, load, store};
use crate::size::{product, reach, whole};

/// Positions are computed in whole vectors; no vector is longer than this.
pub(crate) const LANES: usize = 16;

/// Output channels that one register tile computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// First channel, within its group.
    pub first: usize,
    /// Channels that exist.
    pub channels: usize,
    /// Channels that are computed: one of the tiles' sizes, at least `channels`.
    pub width: usize,
}

/// What the lanes of a vector are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Flat positions: [`TapSums`].
    Positions,
    /// Output channels: [`RowSums`](super::row_sums::RowSums).
    Channels,
}

/// Products in each sum for which channels may be the lanes.
const LEAST_PRODUCTS: usize = 400;

impl Lanes {
    /// What computes sums of so many `products` each faster: positions in the lanes, of which there are `flat` over all channels, padded to whole
    /// vectors and with those that are dropped, or channels, with the `padded` ones. The transposed result has to pay; with few registers tiles
    /// of channels take four fifths of the time: their vectors do not cross cache lines, and 32 channels fill them.
    pub(crate) fn faster(registers: Registers, products: usize, flat: usize, padded: usize) -> Self {
        let cost = if registers.few { 16 } else { 21 };
        let is_less = product(&[padded, cost]) < product(&[flat, 20]);
        if products >= LEAST_PRODUCTS && is_less { Self::Channels } else { Self::Positions }
    }
}

/// Divides `channels` over register tiles.
pub(crate) fn blocks(arch: Arch, lanes: Lanes, channels: usize) -> Vec<Block> {
    let registers = Registers::of(arch);
    let (mut blocks, mut first) = (Vec::new(), 0);
    while first < channels {
        let width = match channels - first {
            _ if lanes == Lanes::Channels => 2 * registers.lanes,
            // There is a tile of each width up to the widest: equal ones.
            rest if registers.few => rest.div_ceil(rest.div_ceil(6)),
            rest @ (1..=4) => rest,
            5 | 6 | 9 | 10 => 6,
            _ => 8,
        };
        blocks.push(Block { first, channels: width.min(channels - first), width });
        first += width;
    }
    blocks
}

/// The vector registers of an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// Whether there are [few](few_registers).
    pub few: bool,
    /// Floats in each.
    pub lanes: usize,
}

impl Registers {
    /// Those of `arch`.
    pub(crate) fn of(arch: Arch) -> Self {
        struct Ask;
        impl WithSimd for Ask {
            type Output = Registers;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> Registers {
                Registers { few: few_registers::<S>(), lanes: S::F32_LANES }
            }
        }
        arch.dispatch(Ask)
    }
}

/// An element of the kernel, for one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    /// Distance from a position to the value that is read.
    pub offset: usize,
    /// Number of the element among the weights of a channel.
    pub weight: usize,
}

/// The sums of one block of output channels.
#[derive(Debug)]
pub(crate) struct TapSums<'a> {
    /// Packed values, `channel_stride` from one channel to the next.
    pub input: &'a [f32],
    /// Distance between channels of the input.
    pub channel_stride: usize,
    /// `[channels][elements][block.width]`.
    pub weight: &'a [f32],
    /// Elements per channel among the weights.
    pub elements: usize,
    /// Channels to sum over.
    pub channels: usize,
    /// Elements to sum over.
    pub taps: &'a [Tap],
    /// Output channels that are computed, from [`Block::width`].
    pub width: usize,
    /// Flat positions, rounded up to whole vectors when computed.
    pub positions: usize,
    /// `[width][target_stride]`: overwritten up to the last vector.
    pub target: &'a mut [f32],
    /// Distance between channels of the target.
    pub target_stride: usize,
    /// What is asked for meanwhile.
    pub ahead: &'a mut Ahead,
}

/// Steps of [`Ahead`] that one run takes, about: one for each channel of a register tile.
pub(crate) fn steps(channels: usize, positions: usize) -> usize {
    channels * positions.div_ceil(3 * LANES)
}

impl TapSums<'_> {
    /// Computes the sums.
    ///
    /// # Panics
    ///
    /// If a slice is too short.
    pub(crate) fn run(self, arch: Arch) {
        let end = whole(self.positions, LANES);
        let furthest = self.taps.iter().map(|tap| tap.offset).max().unwrap_or(0);
        assert!(self.taps.iter().all(|tap| tap.weight < self.elements), "a tap without weight");
        assert!(product(&[self.channels, self.elements, self.width]) <= self.weight.len(), "too few weights");
        let last = reach(self.channels, self.channel_stride, furthest.saturating_add(end));
        let reads = self.channels > 0 && !self.taps.is_empty();
        assert!(!reads || last <= self.input.len(), "too little input");
        let room = product(&[self.width, self.target_stride]);
        assert!(self.target_stride >= end && room <= self.target.len(), "too little room");
        arch.dispatch(self);
    }

    /// The sums of `CHANNELS` output channels at `VECTORS` vectors of positions.
    ///
    /// # Safety
    ///
    /// The slices are as long as [`TapSums::run`] checks, `CHANNELS` is the width, and `position + VECTORS * LANES` at
    /// most the number of positions, rounded up to whole vectors.
    #[inline(always)]
    unsafe fn tile<S: Simd, const CHANNELS: usize, const VECTORS: usize>(&mut self, simd: S, position: usize) {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; CHANNELS];
        let weight_stride = self.elements * CHANNELS;
        for channel in 0..self.channels {
            self.ahead.step();
            let input = self.input.as_ptr().wrapping_add(channel * self.channel_stride + position);
            let weight = self.weight.as_ptr().wrapping_add(channel * weight_stride);
            for tap in self.taps {
                let mut values = [simd.splat_f32s(0.0); VECTORS];
                for (vector, value) in values.iter_mut().enumerate() {
                    // SAFETY: `run` has checked the last channel at the furthest tap for the last vector.
                    *value = unsafe { load::<S>(input.add(tap.offset + vector * S::F32_LANES)) };
                }
                for (output, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: `run` has checked that each tap's weights exist.
                    let weight = simd.splat_f32s(unsafe { *weight.add(tap.weight * CHANNELS + output) });
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = simd.mul_add_e_f32s(value, weight, *sum);
                    }
                }
            }
        }
        for (output, sums) in sums.into_iter().enumerate() {
            for (vector, sum) in sums.into_iter().enumerate() {
                let place = output * self.target_stride + position + vector * S::F32_LANES;
                // SAFETY: `run` has checked that each channel of the target holds all positions, in whole vectors.
                unsafe { store::<S>(self.target.as_mut_ptr().add(place), sum) };
            }
        }
    }

    /// All positions of `CHANNELS` output channels, `VECTORS` vectors at a time, the rest by smaller tiles (four vectors
    /// as two and two, which is faster than three and one).
    #[inline(always)]
    fn all<S: Simd, const CHANNELS: usize, const VECTORS: usize>(mut self, simd: S) {
        let end = self.positions.div_ceil(S::F32_LANES);
        let mut vector = 0;
        while vector < end {
            let position = vector * S::F32_LANES;
            // SAFETY: the width is `CHANNELS`, and no tile goes further than vector `end`, which is within the last
            // position rounded up to `LANES`.
            vector += unsafe {
                match end - vector {
                    rest if rest >= VECTORS && !(VECTORS == 3 && rest == 4) => {
                        apart(
                            simd,
                            #[inline(always)]
                            || self.tile::<S, CHANNELS, VECTORS>(simd, position),
                        );
                        VECTORS
                    }
                    4.. if VECTORS > 4 => {
                        apart(
                            simd,
                            #[inline(always)]
                            || self.tile::<S, CHANNELS, 4>(simd, position),
                        );
                        4
                    }
                    2.. if VECTORS > 2 => {
                        apart(
                            simd,
                            #[inline(always)]
                            || self.tile::<S, CHANNELS, 2>(simd, position),
                        );
                        2
                    }
                    _ => {
                        apart(
                            simd,
                            #[inline(always)]
                            || self.tile::<S, CHANNELS, 1>(simd, position),
                        );
                        1
                    }
                }
            };
        }
    }
}

impl WithSimd for TapSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.width, few_registers::<S>()) {
            (8, false) => self.all::<S, 8, 3>(simd),
            (6, false) => self.all::<S, 6, 4>(simd),
            (4, false) => self.all::<S, 4, 6>(simd),
            (3, false) => self.all::<S, 3, 7>(simd),
            (2, false) => self.all::<S, 2, 8>(simd),
            (6, true) => self.all::<S, 6, 2>(simd),
            (5, true) => self.all::<S, 5, 2>(simd),
            (4, true) => self.all::<S, 4, 2>(simd),
            (3, true) => self.all::<S, 3, 3>(simd),
            (2, true) => self.all::<S, 2, 4>(simd),
            (1, _) => self.all::<S, 1, 8>(simd),
            _ => unreachable!("no register tile of this width"),
        }
    }
}

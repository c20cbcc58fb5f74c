//! Weights as tiles.

use half::bf16;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::Stored;
use crate::buffer::Lines;
use crate::conv::gather::problem::Gather;
use crate::conv::tiles::tap_sums::LANES;
use crate::conv::tiles::transpose::transposed;
use crate::tile_products::{ROWS, TERMS, Unit};

/// Output channels of a block: two tiles.
pub(super) const BLOCK: usize = 2 * ROWS;

/// Values of a block for one element of the kernel and 32 input channels.
pub(super) const BLOCK_LEN: usize = BLOCK * TERMS;

/// Weights of a gather, rounded to bfloat16: `[group][block of output channels][element][block of input channels][output channel][input
/// channel]`, with zeros for channels that are not there. There are up to 32 input channels in a block, in room for 32.
#[derive(Debug)]
pub(super) struct TileWeights {
    values: Lines<bf16>,
    /// Length of a block.
    block_len: usize,
    /// Blocks of a group.
    pub blocks: usize,
    /// Blocks of input channels.
    pub inputs: usize,
    /// Input channels of a block.
    pub terms: usize,
}

impl TileWeights {
    /// Packs a weight.
    pub(super) fn new(unit: Unit, gather: &Gather, arch: Arch, weight: &[f32]) -> Self {
        let mut weights = Self::unfilled(unit, gather);
        let Self { blocks, inputs, terms, block_len, .. } = weights;
        let elements = weight.len() / (gather.groups * gather.channels[0] * gather.channels[1]);
        let group_len = weight.len() / gather.groups;
        weights.values = Lines::new(gather.groups * blocks * block_len);
        weights.values.par_chunks_exact_mut(block_len).enumerate().for_each(|(at, target)| {
            let (group, first) = (at / blocks, at % blocks * BLOCK);
            let weight = &weight[group * group_len..][..group_len];
            let rows = BLOCK.min(gather.channels[1] - first);
            // Output channels that follow each other are read as elements are.
            let (rows, elements, target_stride) = match elements == 1 && gather.strides.output == 1 {
                true => (1, rows, TERMS),
                false => (rows, elements, inputs * BLOCK_LEN),
            };
            for row in 0..rows {
                for (block, start) in (0..gather.channels[0]).step_by(terms).enumerate() {
                    let end = gather.channels[0].min(start + terms);
                    for input in (start..end).step_by(LANES) {
                        arch.dispatch(FillWeights {
                            weight: &weight[(first + row) * gather.strides.output + input * gather.strides.input..],
                            stride: gather.strides.input,
                            channels: LANES.min(end - input),
                            elements,
                            target: &mut target[block * BLOCK_LEN + row * TERMS + input - start..],
                            target_stride,
                        });
                    }
                }
            }
        });
        weights
    }

    /// How [`Self::new`] lays the weights out, without them.
    pub(super) fn unfilled(unit: Unit, gather: &Gather) -> Self {
        let [inputs, blocks] = [gather.channels[0].div_ceil(TERMS), gather.channels[1].div_ceil(BLOCK)];
        let elements = gather.axes.iter().map(|axis| axis.kernel).product::<usize>();
        let terms = unit.terms(gather.channels[0]);
        Self { values: Lines::new(0), block_len: elements * inputs * BLOCK_LEN, blocks, inputs, terms }
    }

    /// Bytes of the weights.
    pub(super) fn bytes(&self, groups: usize) -> usize {
        Lines::<bf16>::bytes(groups * self.blocks * self.block_len)
    }

    /// A block of a group.
    pub(super) fn block(&self, group: usize, block: usize) -> &[bf16] {
        &self.values[(group * self.blocks + block) * self.block_len..][..self.block_len]
    }
}

/// Packs what some input channels, up to sixteen, have for one output channel; or for several, of a kernel of one element.
struct FillWeights<'a> {
    weight: &'a [f32],
    /// From one channel to the next.
    stride: usize,
    channels: usize,
    elements: usize,
    target: &'a mut [bf16],
    /// From one element to the next.
    target_stride: usize,
}

impl WithSimd for FillWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weight, stride, channels, elements, target, target_stride } = self;
        if elements == 1 && stride == 1 {
            return bf16::narrow(&weight[..channels], &mut target[..channels]);
        }
        if elements == 1 {
            let weights = target.iter_mut().zip(weight.iter().step_by(stride));
            weights.take(channels).for_each(|(to, weight)| *to = <bf16 as Stored>::from_f32(*weight));
            return;
        }
        for first in (0..elements).step_by(LANES) {
            let columns = LANES.min(elements - first);
            let block = transposed(simd, &weight[first..], stride, [channels, columns]);
            for (element, weights) in (first..).zip(&block[..columns]) {
                let rounded = weights.map(<bf16 as Stored>::from_f32);
                target[element * target_stride..][..channels].copy_from_slice(&rounded[..channels]);
            }
        }
    }
}

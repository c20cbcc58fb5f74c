//! Weights as tiles.

use half::bf16;
use rayon::prelude::*;

use crate::Stored;
use crate::amx::{ROWS, TERMS};
use crate::conv::gather::problem::Gather;

/// Output channels of a block: two tiles.
pub(super) const BLOCK: usize = 2 * ROWS;

/// Values of a block for one element of the kernel and 32 input channels.
pub(super) const BLOCK_LEN: usize = BLOCK * TERMS;

/// Weights of a gather, rounded to bfloat16: `[group][block of output channels][element][32 input channels][output channel][input
/// channel]`, with zeros for channels that are not there.
#[derive(Debug)]
pub(super) struct TileWeights {
    values: Vec<bf16>,
    /// Length of a block.
    block_len: usize,
    /// Blocks of a group.
    pub blocks: usize,
    /// Times 32 input channels.
    pub inputs: usize,
}

impl TileWeights {
    /// Packs a weight.
    pub(super) fn new(gather: &Gather, weight: &[f32]) -> Self {
        let mut weights = Self::unfilled(gather);
        let (blocks, inputs, block_len) = (weights.blocks, weights.inputs, weights.block_len);
        let elements = weight.len() / (gather.groups * gather.channels[0] * gather.channels[1]);
        let group_len = weight.len() / gather.groups;
        weights.values = vec![bf16::ZERO; gather.groups * blocks * block_len];
        weights.values.par_chunks_exact_mut(block_len).enumerate().for_each(|(at, target)| {
            let (group, first) = (at / blocks, at % blocks * BLOCK);
            let weight = &weight[group * group_len..][..group_len];
            for row in 0..BLOCK.min(gather.channels[1] - first) {
                for input in 0..inputs {
                    let from = (first + row) * gather.strides.output + input * TERMS * gather.strides.input;
                    let channels = TERMS.min(gather.channels[0] - input * TERMS);
                    // What these channels have for all elements is in the first-level cache.
                    for element in 0..elements {
                        let target = &mut target[(element * inputs + input) * BLOCK_LEN + row * TERMS..][..channels];
                        let weight = weight[from + element..].iter().step_by(gather.strides.input);
                        target
                            .iter_mut()
                            .zip(weight)
                            .for_each(|(to, weight)| *to = <bf16 as Stored>::from_f32(*weight));
                    }
                }
            }
        });
        weights
    }

    /// How [`Self::new`] lays the weights out, without them.
    pub(super) fn unfilled(gather: &Gather) -> Self {
        let [inputs, blocks] = [gather.channels[0].div_ceil(TERMS), gather.channels[1].div_ceil(BLOCK)];
        let elements = gather.axes.iter().map(|axis| axis.kernel).product::<usize>();
        Self { values: Vec::new(), block_len: elements * inputs * BLOCK_LEN, blocks, inputs }
    }

    /// Bytes of the weights.
    pub(super) fn bytes(&self, groups: usize) -> usize {
        groups * self.blocks * self.block_len * size_of::<bf16>()
    }

    /// A block of a group.
    pub(super) fn block(&self, group: usize, block: usize) -> &[bf16] {
        &self.values[(group * self.blocks + block) * self.block_len..][..self.block_len]
    }
}

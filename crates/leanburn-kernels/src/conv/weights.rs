//! Weights in the order in which the register tiles read them.

use rayon::prelude::*;

use super::axis::Axis;
use super::tile::Block;

/// Where the weight of an element of the kernel lies in the caller's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightStrides {
    /// From one output channel (of the gather) to the next.
    pub output: usize,
    /// From one input channel (of the gather) to the next.
    pub input: usize,
}

/// Weights of a gather, `[phase of the output][group][block][input channel][element][channel of the block]`.
///
/// # Memory
///
/// One copy of the weight, plus the channels that blocks are wider than the channels they hold.
#[derive(Debug)]
pub(crate) struct PackedWeights {
    values: Vec<f32>,
    /// Start of each phase, and the elements of the kernel that it has.
    phases: Vec<(usize, usize)>,
    blocks: Vec<Block>,
    channels_in: usize,
    /// Output channels of a group, with those that blocks are wider than the channels they hold.
    channels_computed: usize,
}

impl PackedWeights {
    /// Packs `weight` for `groups` of `channels_in` channels each to `blocks` of output channels.
    pub(crate) fn new(
        blocks: Vec<Block>,
        weight: &[f32],
        groups: usize,
        channels_in: usize,
        axes: &[Axis; 3],
        strides: WeightStrides,
    ) -> Self {
        let channels_computed: usize = blocks.iter().map(|block| block.width).sum();
        let elements = elements(axes);
        let (mut phases, mut len) = (Vec::new(), 0);
        for elements in &elements {
            phases.push((len, elements.len()));
            len += groups * channels_computed * channels_in * elements.len();
        }
        let mut values = vec![0.0; len];
        let mut jobs = Vec::new();
        let mut rest = &mut values[..];
        for elements in &elements {
            for group in 0..groups {
                for block in &blocks {
                    let (target, others) = rest.split_at_mut(channels_in * elements.len() * block.width);
                    rest = others;
                    jobs.push((target, elements, group, block));
                }
            }
        }
        let group_len = weight.len() / groups;
        jobs.into_par_iter().filter(|(target, ..)| !target.is_empty()).for_each(|(target, elements, group, block)| {
            let weight = &weight[group * group_len..][..group_len];
            pack_block(weight, elements, block, strides, target);
        });
        Self { values, phases, blocks, channels_in, channels_computed }
    }

    /// Blocks of output channels, of each group.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Weights of a block, `[input channel][element][channel of the block]`, and the number of elements.
    pub(crate) fn block(&self, phase: usize, group: usize, block: &Block) -> (&[f32], usize) {
        let (start, elements) = self.phases[phase];
        let start = start + (group * self.channels_computed + block.first) * self.channels_in * elements;
        (&self.values[start..][..block.width * self.channels_in * elements], elements)
    }
}

/// The elements of the kernel (numbered over all axes) of each phase of the output, rows and columns varying fastest.
fn elements(axes: &[Axis; 3]) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for depth in &axes[0].taps {
        for row in &axes[1].taps {
            for column in &axes[2].taps {
                let mut elements = Vec::new();
                for depth in depth {
                    for row in row {
                        let first = (depth.element * axes[1].kernel + row.element) * axes[2].kernel;
                        elements.extend(column.iter().map(|column| first + column.element));
                    }
                }
                all.push(elements);
            }
        }
    }
    all
}

/// Packs one block from the weights of its group. The elements of a kernel lie together there, hence the order.
fn pack_block(weight: &[f32], elements: &[usize], block: &Block, strides: WeightStrides, target: &mut [f32]) {
    for (input, target) in target.chunks_exact_mut(elements.len() * block.width).enumerate() {
        for output in 0..block.channels {
            let kernel = &weight[(block.first + output) * strides.output + input * strides.input..];
            let places = target[output..].iter_mut().step_by(block.width);
            places.zip(elements).for_each(|(place, element)| *place = kernel[*element]);
        }
    }
}

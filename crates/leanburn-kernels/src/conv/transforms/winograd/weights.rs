//! Weights, transformed, in the order in which the register tiles read them.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::COMPONENTS;
use crate::conv::gather::problem::Gather;
use crate::conv::tiles::tap_sums::Block;
use crate::conv::transforms::minimal_filter;
use crate::parallel::busy;

/// Weights of a gather, `[group][block][component][input channel][element][channel of the block]`, where the elements
/// are those along the depth and the columns.
///
/// # Memory
///
/// Two copies of a weight of three rows, plus the channels that blocks are wider than the channels they hold.
#[derive(Debug)]
pub(super) struct TransformedWeights {
    values: Vec<f32>,
    blocks: Vec<Block>,
    channels_in: usize,
    elements: usize,
    /// Output channels of a group, with those that blocks are wider than the channels they hold.
    channels_computed: usize,
}

impl TransformedWeights {
    /// Transforms `weight` for `blocks` of the output channels of each group.
    pub(super) fn new(arch: Arch, gather: &Gather, blocks: Vec<Block>, weight: &[f32]) -> Self {
        let rows = row_elements(gather);
        let (elements, channels_computed) = (rows[0].len(), computed(&blocks));
        let per_channel = COMPONENTS * gather.channels[0] * elements;
        let mut values = vec![0.0; gather.groups * channels_computed * per_channel];
        let (mut jobs, mut rest) = (Vec::new(), &mut values[..]);
        for group in 0..gather.groups {
            for block in &blocks {
                let (target, others) = rest.split_at_mut(block.width * per_channel);
                rest = others;
                jobs.push((target, group, block));
            }
        }
        let group_len = weight.len() / gather.groups;
        jobs.into_par_iter().filter(|(target, ..)| !target.is_empty()).for_each(|(target, group, block)| {
            let weight = &weight[group * group_len..][..group_len];
            arch.dispatch(TransformBlock { gather, rows: &rows, weight, block, target });
        });
        Self { values, blocks, channels_in: gather.channels[0], elements, channels_computed }
    }

    /// Bytes of the weights, and of the temporaries of transforming them.
    pub(super) fn bytes(gather: &Gather, blocks: &[Block]) -> [usize; 2] {
        let elements = gather.axes[0].kernel * gather.axes[2].kernel;
        let len = gather.groups * computed(blocks) * COMPONENTS * gather.channels[0] * elements;
        let widest = blocks.iter().map(|block| block.width).max().unwrap_or(0);
        [len, busy(gather.groups * blocks.len()) * 3 * elements * widest].map(|len| len * size_of::<f32>())
    }

    /// Blocks of output channels, of each group.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Elements of each channel and component.
    pub(super) fn elements(&self) -> usize {
        self.elements
    }

    /// Weights of a block, `[input channel][element][channel of the block]`.
    pub(super) fn block(&self, component: usize, group: usize, block: &Block) -> &[f32] {
        let len = self.channels_in * self.elements;
        let start = (group * self.channels_computed + block.first) * COMPONENTS + component * block.width;
        &self.values[start * len..][..block.width * len]
    }
}

/// Output channels that blocks compute.
fn computed(blocks: &[Block]) -> usize {
    blocks.iter().map(|block| block.width).sum()
}

/// The elements of the kernel that read the first, second and third row, numbered over all axes, columns varying fastest.
fn row_elements(gather: &Gather) -> [Vec<usize>; 3] {
    let [depth, rows, columns] = &gather.axes;
    std::array::from_fn(|read| {
        let row = rows.taps[0].iter().find(|tap| tap.read == read).expect("three rows are read").element;
        let first = |depth: usize| (depth * rows.kernel + row) * columns.kernel;
        let of_depth = |depth| columns.taps[0].iter().map(move |column| first(depth) + column.element);
        depth.taps[0].iter().flat_map(|tap| of_depth(tap.element)).collect()
    })
}

/// Transforms the weights of one block.
struct TransformBlock<'a> {
    gather: &'a Gather,
    rows: &'a [Vec<usize>; 3],
    weight: &'a [f32],
    block: &'a Block,
    target: &'a mut [f32],
}

impl WithSimd for TransformBlock<'_> {
    type Output = ();

    /// The elements of a kernel lie together in the weight, the channels of a block in the target; between them stands
    /// one input channel, `[row][element][channel of the block]`.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { gather, rows, weight, block, target } = self;
        let len = rows[0].len() * block.width;
        let component_len = gather.channels[0] * len;
        let mut kernels = vec![0.0; rows.len() * len];
        for input in 0..gather.channels[0] {
            for output in 0..block.channels {
                let kernel = &weight[(block.first + output) * gather.strides.output + input * gather.strides.input..];
                for (row, elements) in rows.iter().enumerate() {
                    let places = kernels[row * len + output..].iter_mut().step_by(block.width);
                    places.zip(elements).for_each(|(place, element)| *place = kernel[*element]);
                }
            }
            let (first, rest) = kernels.split_at(len);
            let (second, third) = rest.split_at(len);
            let (components, _) = target[input * len..].split_at_mut(5 * component_len + len);
            let (c0, components) = components.split_at_mut(component_len);
            let (c1, components) = components.split_at_mut(component_len);
            let (c2, components) = components.split_at_mut(component_len);
            let (c3, components) = components.split_at_mut(component_len);
            let (c4, c5) = components.split_at_mut(component_len);
            let (c0, c1, c2) = (&mut c0[..len], &mut c1[..len], &mut c2[..len]);
            let (c3, c4, c5) = (&mut c3[..len], &mut c4[..len], &mut c5[..len]);
            for index in 0..len {
                let three = [first[index], second[index], third[index]].map(f64::from);
                let six = minimal_filter::kernel(three).map(|value| value as f32);
                [c0[index], c1[index], c2[index], c3[index], c4[index], c5[index]] = six;
            }
        }
    }
}

//! The engine of the forward pass and of the data gradient: sums over channels and kernel elements, without im2col.
//!
//! A task computes one tile of rows and columns of one item and group, and marches along the depth with a ring of
//! packed input planes ([`super::pack`]). For each output plane, each phase of the output and each block of output
//! channels, register tiles ([`super::tile`]) sum over the input channels and the elements of the kernel, and the rows
//! are written out ([`super::rows`]).

use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;

use super::axis::{Axis, AxisTap, merge_pointwise};
use super::depth_transform::DepthTransform;
use super::pack::Source;
use super::pass::{Pass, Scratch};
use super::rows::SharedOutput;
use super::tile::{Lanes, Registers, blocks};
use super::tiling::{Tiling, Work, lanes};
use super::weights::{PackedWeights, WeightOrder, WeightStrides};
use super::{ConvShape, Input, Output};
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
    /// Of the forward pass.
    pub(crate) fn forward(shape: &ConvShape) -> Self {
        let channels = [shape.channels_in / shape.groups, shape.channels_out / shape.groups];
        let elements: usize = shape.kernel.iter().product();
        Self {
            batch_size: shape.batch_size,
            groups: shape.groups,
            channels,
            axes: merge_pointwise(std::array::from_fn(|axis| Axis::forward(shape, axis))),
            strides: WeightStrides { output: channels[0] * elements, input: elements },
        }
    }

    /// Of the data gradient.
    pub(crate) fn data_gradient(shape: &ConvShape) -> Self {
        let channels = [shape.channels_out / shape.groups, shape.channels_in / shape.groups];
        let elements: usize = shape.kernel.iter().product();
        Self {
            batch_size: shape.batch_size,
            groups: shape.groups,
            channels,
            axes: merge_pointwise(std::array::from_fn(|axis| Axis::data_gradient(shape, axis))),
            strides: WeightStrides { output: elements, input: channels[1] * elements },
        }
    }

    /// Computes the whole output, by a transform along the depth if there is one.
    pub(crate) fn run<E: Element>(
        &self,
        arch: Arch,
        transform: Option<DepthTransform>,
        input: Input<'_, E>,
        weight: &[f32],
        output: Output<'_, E>,
    ) {
        let output_len = output.values.len();
        if output_len == 0 {
            return;
        }
        let apart = (transform.is_none() && self.elements_apart()).then(|| self.of_elements(weight));
        let (inner, weight) = apart.as_ref().map_or((self, weight), |(inner, weight)| (inner, &weight[..]));
        let lanes = match apart {
            Some(_) => Lanes::Positions,
            None => lanes(&self.axes, self.channels, Registers::of(arch).lanes),
        };
        let blocks = blocks(arch, lanes, inner.channels[1]);
        let mut axes = inner.axes.clone();
        if let Some(transform) = &transform {
            axes[0] = transform.axis.clone();
        }
        let order = WeightOrder {
            groups: self.groups,
            channels_in: self.channels[0],
            axes: if apart.is_some() { &depth_alone(&axes) } else { &axes },
            strides: inner.strides,
            transform: transform.as_ref().map(|transform| &transform.elements[..]),
        };
        let weights = PackedWeights::new(arch, blocks, weight, &order);
        let widest = weights.blocks().iter().map(|block| block.width).max().unwrap_or(1);
        let kept = if apart.is_some() { inner.channels[1] } else { widest };
        let keep = transform.is_some() || lanes == Lanes::Channels;
        let pieces = self.batch_size * self.groups;
        let tiling = Tiling::new(&Work { axes: &axes, channels: inner.channels, lanes, widest: kept, keep, pieces });
        let (apart, widest) = (apart.is_some(), if apart.is_some() { 1 } else { widest });
        let size = self.axes.each_ref().map(|axis| axis.input);
        let source = Source { input, channels: self.groups * self.channels[0], size };
        let [chunks, high, wide] = tiling.counts(&axes);
        let [depth, ..] = axes;
        let output = SharedOutput::new(output);
        let pass = Pass { arch, gather: self, depth, transform, weights, lanes, apart, widest, tiling, output };
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

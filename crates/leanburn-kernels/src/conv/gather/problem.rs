//! What is computed: a convolution or its data gradient as a sum over channels and kernel elements.

use crate::conv::gather::axis::{Axis, merge_pointwise};
use crate::conv::shape::ConvShape;

/// Where the weight of an element of the kernel lies in the caller's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightStrides {
    /// From one output channel (of the gather) to the next.
    pub output: usize,
    /// From one input channel (of the gather) to the next.
    pub input: usize,
}

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

    /// Elements of the weight.
    pub(crate) fn weight_len(&self) -> usize {
        let elements = self.axes.iter().map(|axis| axis.kernel).product::<usize>();
        self.groups * self.channels[0] * self.channels[1] * elements
    }
}

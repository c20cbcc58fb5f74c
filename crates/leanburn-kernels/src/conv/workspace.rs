//! How much memory the convolutions take while they run, beside their inputs and outputs.
//!
//! Whatever the element: all that they keep is float32. The lengths are those that the kernels allocate by.

use super::gather::Gather;
use super::{ConvShape, weight_gradient, winograd};
use crate::simd;

/// Bytes for small lists of all kinds.
const LISTS: usize = 4096;

/// Bytes of small lists for each element of the kernel.
const LISTS_OF_ELEMENT: usize = 128;

/// Bytes that [`forward`](super::forward) takes at most, in the current pool.
pub fn forward_workspace(shape: &ConvShape) -> usize {
    if shape.output_len() == 0 { 0 } else { lists(shape) + winograd::workspace(&Gather::forward(shape), simd::best()) }
}

/// Bytes that [`data_gradient`](super::data_gradient) takes at most, in the current pool.
pub fn data_gradient_workspace(shape: &ConvShape) -> usize {
    if shape.input_len() == 0 {
        return 0;
    }
    lists(shape) + winograd::workspace(&Gather::data_gradient(shape), simd::best())
}

/// Bytes that [`weight_gradient`](super::weight_gradient()) takes at most, in the current pool.
pub fn weight_gradient_workspace(shape: &ConvShape) -> usize {
    if shape.output_len() == 0 || shape.weight_len() == 0 {
        return 0;
    }
    lists(shape) + weight_gradient::workspace(shape)
}

/// Bytes of lists of axes, elements of the kernel and blocks of channels, about.
fn lists(shape: &ConvShape) -> usize {
    LISTS + LISTS_OF_ELEMENT * shape.kernel.iter().product::<usize>()
}

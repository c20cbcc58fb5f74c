//! The workspace of the convolutions: memory while they run, without inputs and outputs.
//!
//! Whatever the element: all of it is float32. The lengths are those that the kernels allocate by.

use crate::conv::gather::problem::Gather;
use crate::conv::method;
use crate::conv::shape::ConvShape;
use crate::conv::weight_gradient;
use crate::simd;

/// Bytes for small lists of all kinds.
const LISTS: usize = 4096;

/// Bytes of small lists for each element of the kernel.
const LISTS_OF_ELEMENT: usize = 128;

/// Bytes that [`forward`](super::forward()) takes at most, in the current pool.
pub fn forward_workspace(shape: &ConvShape) -> usize {
    if shape.output_len() == 0 { 0 } else { lists(shape) + method::workspace(&Gather::forward(shape), simd::best()) }
}

/// Bytes that [`data_gradient`](super::data_gradient()) takes at most, in the current pool.
pub fn data_gradient_workspace(shape: &ConvShape) -> usize {
    if shape.input_len() == 0 {
        return 0;
    }
    lists(shape) + method::workspace(&Gather::data_gradient(shape), simd::best())
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

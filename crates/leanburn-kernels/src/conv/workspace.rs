//! The workspace of the convolutions: memory while they run, without inputs and outputs.
//!
//! All of it is float32, but for what is multiplied as bfloat16. The lengths are those that the kernels allocate by.

use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::Gather;
use crate::conv::shape::ConvShape;
use crate::kernels::Element;
use crate::simd;

/// Bytes for small lists of all kinds.
const LISTS: usize = 4096;

/// Bytes of small lists for each element of the kernel.
const LISTS_OF_ELEMENT: usize = 128;

/// Bytes for each phase of an output: where its weights begin; before there are any, the elements of the kernel that belong to it.
const PHASE: [usize; 2] = [size_of::<(usize, usize)>(), size_of::<Vec<usize>>()];

/// Bytes that [`forward`](super::forward()) of this element takes at most, in the current pool.
pub fn forward_workspace<E: Element>(shape: &ConvShape) -> usize {
    if shape.output_len() == 0 { 0 } else { gather_workspace::<E>(shape, &Gather::forward(shape)) }
}

/// Bytes that [`data_gradient`](super::data_gradient()) of this element takes at most, in the current pool.
pub fn data_gradient_workspace<E: Element>(shape: &ConvShape) -> usize {
    if shape.input_len() == 0 { 0 } else { gather_workspace::<E>(shape, &Gather::data_gradient(shape)) }
}

fn gather_workspace<E: Element>(shape: &ConvShape, gather: &Gather) -> usize {
    let phases: usize = gather.axes.iter().map(Axis::phases).product();
    let computed = lists(shape) + (E::kernels().gather_workspace)(gather, simd::best());
    phases * PHASE[0] + computed.max(phases * PHASE[1])
}

/// Bytes that [`weight_gradient`](super::weight_gradient()) of this element takes at most, in the current pool.
pub fn weight_gradient_workspace<E: Element>(shape: &ConvShape) -> usize {
    if shape.output_len() == 0 || shape.weight_len() == 0 {
        return 0;
    }
    lists(shape) + (E::kernels().conv_weight_gradient_workspace)(shape)
}

/// Bytes of lists of axes, elements of the kernel and blocks of channels, about.
fn lists(shape: &ConvShape) -> usize {
    LISTS + LISTS_OF_ELEMENT * shape.kernel.iter().product::<usize>()
}

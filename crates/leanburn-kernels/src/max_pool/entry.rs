//! What callers call: each function on the best instruction set, by the table of its element.

use super::gradient::SLAB;
use super::windows::PoolWindows;
use crate::kernels::Element;
use crate::simd;

/// The largest value of each window. A value that is no number counts as the largest.
///
/// # Shapes
///
/// `input`: `[items, depth, height, width]`, where the items are all channels of all volumes. `output`: the same, with one
/// value for each window.
///
/// # Memory
///
/// The backward pass holds the input. Each thread holds two rows of the input and one of the output.
///
/// # Numerics
///
/// Exact; `0.0` and `-0.0` are the same.
///
/// # Panics
///
/// Where the slices do not have these shapes.
///
/// # Example
///
/// ```
/// use leanburn_kernels::max_pool::{PoolWindows, max_pool, max_pool_backward};
///
/// let windows = PoolWindows::adaptive(1, [1, 1, 4], [1, 1, 2])?;
/// let (input, mut output, mut gradient) = ([1.0f32, 3.0, 4.0, 2.0], [0.0; 2], [0.0; 4]);
/// max_pool(&windows, &input, &mut output);
/// assert_eq!(output, [3.0, 4.0]);
/// max_pool_backward(&windows, &input, &[0.5, 0.25], &mut gradient);
/// assert_eq!(gradient, [0.0, 0.5, 0.25, 0.0]);
/// # Ok::<(), leanburn_kernels::ShapeError>(())
/// ```
pub fn max_pool<E: Element>(windows: &PoolWindows, input: &[E], output: &mut [E]) {
    (E::kernels().max_pool)(simd::best(), windows, input, output);
}

/// Brings the gradient of each output to the place of the maximum of its window, and writes the gradient of the input.
///
/// Of equal values the first in order of depth, height and width takes it; of several that are no number the last, as in
/// PyTorch.
///
/// # Shapes
///
/// `input` and `input_gradient`: `[items, depth, height, width]`. `gradient`: one value for each window.
///
/// # Memory
///
/// Each thread holds some planes of the gradient, half a MiB or one plane if that is more, and a few rows.
///
/// # Numerics
///
/// Gradients that meet are summed in float32, in the order of their outputs; the same to the bit with any number of
/// threads.
///
/// # Panics
///
/// Where the slices do not have these shapes, or an item has 2^32 values or more.
pub fn max_pool_backward<E: Element>(windows: &PoolWindows, input: &[E], gradient: &[E], input_gradient: &mut [E]) {
    (E::kernels().max_pool_backward)(simd::best(), SLAB, windows, input, gradient, input_gradient);
}

//! What callers call: the function on the best instruction set, by the table of its element.

use crate::axis_map::AxisMap;
use crate::kernels::Element;
use crate::simd;

/// Maps each axis of each item: interpolation, pooling, or with transposed maps the gradient of one.
///
/// `output[z, y, x] = sum over i, j, k of depth[z, i] height[y, j] width[x, k] input[i, j, k]`, where `maps` are
/// `[depth, height, width]`.
///
/// # Shapes
///
/// `input`: `[items, depth, height, width]`, where the items are all channels of all volumes. `output`: the same, with
/// the lengths that the maps lead to.
///
/// # Memory
///
/// The backward pass holds nothing. Each thread holds as many rows as the longest run of the height has weights, and a few
/// more (16 more if the values are in half precision).
///
/// # Numerics
///
/// Within 1e-6 of exact arithmetic, relative to the same sum of absolute values. Not to the bit the same on different
/// instruction sets, but with any number of threads.
///
/// # Panics
///
/// Where the slices do not have these shapes.
///
/// # Example
///
/// ```
/// use leanburn_kernels::axis_map::AxisMap;
/// use leanburn_kernels::resample::resample;
///
/// let (keep, double) = (AxisMap::identity(1), AxisMap::nearest(2, 4)?);
/// let (mut output, mut gradient) = ([0.0; 4], [0.0; 2]);
/// resample(1, [&keep, &keep, &double], &[1.0f32, 2.0], &mut output);
/// assert_eq!(output, [1.0, 1.0, 2.0, 2.0]);
/// resample(1, [&keep, &keep, &double.transpose()], &output, &mut gradient);
/// assert_eq!(gradient, [2.0, 4.0]);
/// # Ok::<(), leanburn_kernels::ShapeError>(())
/// ```
pub fn resample<E: Element>(items: usize, maps: [&AxisMap; 3], input: &[E], output: &mut [E]) {
    (E::kernels().resample)(simd::best(), items, maps, input, output);
}

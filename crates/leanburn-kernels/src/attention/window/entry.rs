//! What callers call: each function on the best instruction set, by the table of its element.

use super::backward::{ParameterGradients, WindowGradients};
use super::forward::WindowOperands;
use super::shape::WindowShape;
use crate::kernels::Element;
use crate::simd;

/// `output = value * softmax(scale * key^T query + bias + mask)` inside each window, head by head; returns the logarithm of each
/// softmax's denominator, which [`backward`] wants.
///
/// The bias is that of the relative position. The mask is -100 between the two ends of the volume, which meet in the
/// last windows of a shifted axis. Windows that reach beyond the volume have the keys and values of `padding` there, which
/// take part. Source: [Swin Transformer](https://arxiv.org/abs/2103.14030), with the semantics of MONAI's `WindowAttention`.
///
/// # Shapes
///
/// - query, key, value, output: `[batch_size, heads * head_channels, depth, height, width]`
/// - returned: `[batch_size, heads, depth * height * width]`
///
/// # Memory
///
/// The returned logarithms; the table in another order; and on each thread scratch for one window of one head: 0.2 MiB
/// for 7 x 7 x 7 positions of 32 channels.
///
/// # Numerics
///
/// float32; a result does not depend on the number of threads, bit for bit.
///
/// # Panics
///
/// When a slice has another length than the shape says.
pub fn forward<E: Element>(shape: &WindowShape, operands: WindowOperands<'_, E>, output: &mut [E]) -> Vec<f32> {
    (E::kernels().window_attention)(simd::best(), shape, operands, output)
}

/// The gradients of query, key and value, which are written, and of table and padding, which are returned, from what
/// [`forward`] gave (output and logarithms) and the gradient of the output.
///
/// # Memory
///
/// 8 bytes for each row of the table in each of at most 64 tasks, or in each head where there are more; on each thread
/// scratch for one window of one head: 0.5 MiB for 7 x 7 x 7 positions of 32 channels.
///
/// # Numerics
///
/// float32; what is added up over windows in float64, in an order that depends on the shape alone: a gradient does not
/// depend on the number of threads, bit for bit.
///
/// # Panics
///
/// When a slice has another length than the shape says.
pub fn backward<E: Element>(
    shape: &WindowShape,
    operands: WindowOperands<'_, E>,
    results: (&[E], &[f32]),
    gradient: &[E],
    gradients: WindowGradients<'_, E>,
) -> ParameterGradients {
    (E::kernels().window_attention_backward)(simd::best(), shape, operands, results, gradient, gradients)
}

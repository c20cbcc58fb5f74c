//! What callers call: each function on the best instruction set, by the table of its element.

use super::backward::{Attended, Gradients};
use super::shape::AttentionShape;
use crate::kernels::Element;
use crate::simd;

/// `output = value * softmax(scale * key^T query)` over the keys, for each head; returns the logarithm of each
/// softmax's denominator, which [`backward`] wants.
///
/// The softmax is updated with each block of keys, so that no score is stored. Source:
/// [FlashAttention-2](https://arxiv.org/abs/2307.08691).
///
/// # Shapes
///
/// - query, output: `[batch_size, heads * head_channels, query_positions]`
/// - key, value: `[batch_size, heads * head_channels, key_positions]`
/// - returned: `[batch_size, heads, query_positions]`
///
/// # Memory
///
/// The returned logarithms; the addresses of the pieces of the output, 16 bytes for each 48 to 192 values; and on each thread scratch:
/// 0.15 MiB with 64 channels, 0.65 MiB with 512.
///
/// # Numerics
///
/// float32; the result of a query depends neither on the other queries nor on the number of threads, bit for bit.
///
/// # Panics
///
/// When a slice has another length than the shape says.
pub fn forward<E: Element>(shape: &AttentionShape, query: &[E], key: &[E], value: &[E], output: &mut [E]) -> Vec<f32> {
    (E::kernels().attention)(simd::best(), shape, query, key, value, output)
}

/// The gradients of query, key and value, from the gradient of the output (of the output's shape).
///
/// With scores `S`, probabilities `P = exp(S - log_sum_exp)` and `D` the sum over channels of `gradient * output`:
/// `dV = dO P`, `dS = P (V^T dO - D)`, `dQ = scale K dS`, `dK = scale Q dS`. Each sweep recomputes the scores, so that
/// each gradient is summed by one task in one order. Source: [FlashAttention-2](https://arxiv.org/abs/2307.08691).
///
/// # Memory
///
/// One float32 for each query of each head; the addresses of the pieces of gradients, 16 bytes for each 48 to 192 values; and on each
/// thread scratch: 0.25 MiB with 64 channels, 1 MiB with 512.
///
/// # Numerics
///
/// float32; a gradient does not depend on the number of threads, bit for bit.
///
/// # Panics
///
/// When a slice has another length than the shape says.
pub fn backward<E: Element>(
    shape: &AttentionShape,
    attended: Attended<'_, E>,
    gradient: &[E],
    gradients: Gradients<'_, E>,
) {
    (E::kernels().attention_backward)(simd::best(), shape, attended, gradient, gradients);
}

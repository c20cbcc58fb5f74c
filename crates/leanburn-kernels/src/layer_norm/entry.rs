//! What callers call: each function on the best instruction set, by the table of its element.

use super::norm::LayerNorm;
use crate::kernels::Element;
use crate::simd;

impl LayerNorm<'_> {
    /// Normalises `x` into `y`, both `[batch_size, channels, positions]`.
    ///
    /// # Memory
    ///
    /// One tile for each thread, about 64 KiB.
    ///
    /// # Panics
    ///
    /// When a slice has another length than the shape says.
    pub fn forward<E: Element>(&self, x: &[E], y: &mut [E]) {
        (E::kernels().layer_norm)(self, simd::best(), x, y);
    }

    /// Replaces the gradient of the output by that of the input `x`; returns the gradients of weight and bias.
    ///
    /// Mean and deviation are computed again.
    ///
    /// # Memory
    ///
    /// Two tiles for each thread, about 128 KiB, and 16 bytes for each channel in each of at most 64 tasks, or in each item where
    /// there are more.
    ///
    /// # Numerics
    ///
    /// float32; sums over positions in float64, in an order that depends on the shape alone.
    ///
    /// # Panics
    ///
    /// When a slice has another length than the shape says.
    pub fn backward<E: Element>(&self, x: &[E], gradient: &mut [E]) -> [Vec<f32>; 2] {
        (E::kernels().layer_norm_backward)(self, simd::best(), x, gradient)
    }
}

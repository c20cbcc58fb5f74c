//! What callers call: each function by the table of its element.

use super::cells::BevCells;
use crate::kernels::Element;

/// Sums in each cell the features of its points, each times its depth.
///
/// `features`: `[batch_size, channels, pixels]`; `depth`: `[batch_size, bins, pixels]`; `output`: `[batch_size, channels, cells]`.
///
/// # Numerics
///
/// Sums in float64, in the order of the points.
///
/// # Panics
///
/// When a slice has another length.
pub fn bev_pool<E: Element>(cells: &BevCells, features: &[E], depth: &[E], output: &mut [E]) {
    (E::kernels().bev_pool)(cells, features, depth, output);
}

/// The gradients of features and depth, each of which is written where it is given, from that of the output.
///
/// # Numerics
///
/// Sums in float64, in an order that depends on the shape alone.
///
/// # Memory
///
/// See [`bev_pool_backward_workspace`](super::bev_pool_backward_workspace).
///
/// # Panics
///
/// When a slice has another length.
pub fn bev_pool_backward<E: Element>(
    cells: &BevCells,
    operands: [&[E]; 2],
    gradient: &[E],
    gradients: [Option<&mut [E]>; 2],
) {
    (E::kernels().bev_pool_backward)(cells, operands, gradient, gradients);
}

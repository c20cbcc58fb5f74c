//! Max pooling of volumes that keeps only its input.
//!
//! PyTorch keeps the place of each maximum, eight bytes for each output; here the backward pass finds it again. A window is
//! a range on each axis, so that pooling with a kernel and adaptive pooling are one thing.

mod forward;
mod gradient;
mod rows;
#[cfg(test)]
mod tests;
mod windows;

pub use forward::max_pool;
pub(crate) use forward::max_pool_on;
pub(crate) use gradient::max_pool_backward_on;
pub use gradient::{max_pool_backward, max_pool_backward_workspace};
pub use windows::{MaxPoolShape, PoolWindows};

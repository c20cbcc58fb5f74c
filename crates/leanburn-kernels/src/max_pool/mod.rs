//! Max pooling of volumes that keeps only its input.
//!
//! PyTorch keeps the place of each maximum, eight bytes for each output; here the backward pass finds it again. A window is
//! a range on each axis, so that pooling with a kernel and adaptive pooling are one thing.

mod entry;
pub(crate) mod forward;
pub(crate) mod gradient;
mod rows;
#[cfg(test)]
mod tests;
mod windows;

pub use entry::{max_pool, max_pool_backward};
pub use gradient::max_pool_backward_workspace;
pub use windows::{MaxPoolShape, PoolWindows};

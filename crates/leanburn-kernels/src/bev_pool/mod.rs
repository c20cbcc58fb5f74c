//! Features of pixels, spread over depths and summed up in the cells of a grid: the pooling of
//! [Lift, Splat, Shoot](https://arxiv.org/abs/2008.05711).
//!
//! The product of depths and features, and its cumulative sum, are never made: each cell has a list of its points
//! ([BEVPoolv2](https://arxiv.org/abs/2211.17111)). A point lies in one cell, so that both gradients read what they need and nothing
//! is added up by several tasks: sums have one order, and runs the same bits.

mod cells;
mod entry;
mod pool;

pub use cells::BevCells;
pub use entry::{bev_pool, bev_pool_backward};
pub use pool::{bev_pool_backward_workspace, bev_pool_workspace};

pub(crate) use pool::{bev_pool_backward_on, bev_pool_on};

#[cfg(test)]
mod tests;

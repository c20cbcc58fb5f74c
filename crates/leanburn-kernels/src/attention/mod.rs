//! Exact softmax attention in memory that grows with the number of positions, not with its square.
//!
//! Scores are recomputed block by block, forward and backward, and never stored:
//! [FlashAttention](https://arxiv.org/abs/2205.14135), [FlashAttention-2](https://arxiv.org/abs/2307.08691). Operands are
//! channel-major, as a volume is: positions lie in the lanes of vectors, so that no product needs a transpose and no
//! softmax a sum across lanes.

pub(crate) mod backward;
mod entry;
pub(crate) mod forward;
mod key_gradient;
mod panel;
mod power;
mod product;
mod query_gradient;
mod score;
mod shape;
pub mod window;

pub use backward::{Attended, Gradients, backward_workspace};
pub use entry::{backward, forward};
pub use forward::forward_workspace;
pub use shape::AttentionShape;

#[cfg(test)]
mod tests;

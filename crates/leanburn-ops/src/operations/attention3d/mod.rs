//! Exact attention over the positions of a volume: [`attention3d`].
//!
//! On the CPU a kernel of our own, elsewhere a composition of Burn's products in blocks of queries (`blocks.rs`).

mod blocks;
mod computations;
mod operation;
mod scores;

pub use operation::{attention3d, attention3d_in_blocks, largest_attention_block};

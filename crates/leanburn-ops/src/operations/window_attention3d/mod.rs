//! Attention inside the windows of a volume: [`window_attention3d`].
//!
//! On the CPU a kernel of our own, elsewhere a composition of Burn's products in blocks of windows (`composed.rs`).

mod composed;
mod computations;
mod geometry;
mod inputs;
mod operation;

pub use operation::{WindowAttention, window_attention3d};

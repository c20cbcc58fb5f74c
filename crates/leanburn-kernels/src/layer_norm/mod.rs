//! Layer norm over the channels of each position of a volume: [Layer Normalization](https://arxiv.org/abs/1607.06450).
//!
//! A task takes tiles of positions, all channels of each, into the cache, with positions in the lanes of vectors, so that no
//! sum goes across lanes.

mod entry;
mod norm;
mod shape;

pub use norm::{LayerNorm, layer_norm_backward_workspace, layer_norm_workspace};
pub use shape::LayerShape;

#[cfg(test)]
mod tests;

//! Softmax attention inside the windows of a volume, which may be shifted, with a bias for each relative position.
//!
//! [Swin Transformer](https://arxiv.org/abs/2103.14030), in three dimensions as in [Swin UNETR](https://arxiv.org/abs/2201.01266).
//! A task takes the positions of a window out of the volume, and computes tiles of scores as [attention](super) does. Biases
//! and the mask of a shift are added to a tile; neither they nor the scores are ever stored.

pub(crate) mod backward;
mod bias;
mod entry;
pub(crate) mod forward;
mod places;
mod shape;

pub use backward::{ParameterGradients, WindowGradients, backward_workspace};
pub use entry::{backward, forward};
pub use forward::{WindowOperands, forward_workspace};
pub use shape::WindowShape;

#[cfg(test)]
mod tests;

//! 3D convolution: forward, data gradient (which is the transposed convolution) and weight gradient.
//!
//! From the inside out: `tiles` (inner loops), `gather` (what is summed), `packing` (values and weights in, rows out),
//! `pointwise`, `transforms` and `direct` (the engines), `method` (which of them), then the passes, and `entry`.
//! `weight_gradient` has an engine of its own.

pub(crate) mod bias_gradient;
mod check;
pub(crate) mod data_gradient;
mod direct;
mod entry;
pub(crate) mod forward;
pub(crate) mod gather;
mod matrix;
pub(crate) mod method;
mod operands;
pub(crate) mod packing;
mod pointwise;
#[cfg(test)]
pub(crate) mod reference;
mod shape;
mod tasks;
mod tiles;
mod transforms;
pub(crate) mod weight_gradient;
mod workspace;

pub use entry::{bias_gradient, data_gradient, data_gradient_allocating, forward, forward_allocating, weight_gradient};
pub use operands::{Input, Output, Prologue, Residual};
pub use shape::{ConvSettings, ConvShape};
pub use workspace::{data_gradient_workspace, forward_workspace, weight_gradient_workspace};

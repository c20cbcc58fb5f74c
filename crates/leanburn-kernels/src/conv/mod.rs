//! 3D convolution: forward, data gradient (which is the transposed convolution) and weight gradient.
//!
//! From the inside out: `tiles` (inner loops), `gather` (what is summed), `packing` (values and weights in, rows out),
//! `transforms` and `direct` (the engines), `method` (which of them), then the passes. `weight_gradient` has an engine
//! of its own.

mod bias_gradient;
mod check;
mod data_gradient;
mod direct;
mod forward;
mod gather;
mod geometry;
mod method;
mod packing;
#[cfg(test)]
mod reference;
mod tiles;
mod transforms;
mod uninitialised;
mod weight_gradient;
mod workspace;

pub use bias_gradient::bias_gradient;
pub(crate) use bias_gradient::bias_gradient_on;
pub use data_gradient::data_gradient;
pub(crate) use data_gradient::data_gradient_on;
pub use forward::forward;
pub(crate) use forward::forward_on;
pub use geometry::{ConvShape, Input, Output, Prologue, Residual};
pub use uninitialised::{data_gradient_allocating, forward_allocating};
pub use weight_gradient::weight_gradient;
pub(crate) use weight_gradient::{Lanes, weight_gradient_on};
pub use workspace::{data_gradient_workspace, forward_workspace, weight_gradient_workspace};

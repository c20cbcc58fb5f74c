//! Transposed convolution: [`conv_transpose3d`].
//!
//! It is the data gradient of a convolution, and its data gradient is that convolution: the kernels of the CPU
//! (`transposed.rs`) serve [`upsample_conv3d`](super::upsample_conv3d) too.

mod computations;
mod operation;
mod transposed;

pub use operation::conv_transpose3d;

pub(crate) use computations::{DataGradient, Forward, WeightGradient};
pub(crate) use operation::shape;
pub(crate) use transposed::Transposed;

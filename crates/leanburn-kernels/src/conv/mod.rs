//! 3D convolution: forward, data gradient (which is the transposed convolution) and weight gradient.

mod geometry;

pub use geometry::{ConvShape, Input, Output, Prologue, Residual};

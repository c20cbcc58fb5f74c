//! What the operations compute, on tensors without autodiff.
//!
//! Each function has three paths: our kernels for half precision and float32 in the memory of the CPU; on GPUs our
//! CubeCL kernels around Burn's convolutions and products of matrices; and a composition of Burn's operations for
//! everything else, float64 included. A recording device writes down one of the first two, as it is told.

pub(crate) mod attention;
pub(crate) mod attention_in_blocks;
pub(crate) mod conv;
mod conv_gradient;
pub(crate) mod conv_transpose;
pub(crate) mod max_pool;
pub(crate) mod norm;
pub(crate) mod resample;
pub(crate) mod upsample_conv;

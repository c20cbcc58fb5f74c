//! What the operations compute, on tensors without autodiff.
//!
//! Each function has two paths: our kernels for half precision and float32 in the memory of the CPU, and a composition
//! of Burn's operations for every other device and for float64. The composition is also what a recording device records.

pub(crate) mod attention;
pub(crate) mod attention_in_blocks;
pub(crate) mod conv;
pub(crate) mod conv_transpose;
pub(crate) mod max_pool;
pub(crate) mod norm;
pub(crate) mod resample;
pub(crate) mod upsample_conv;

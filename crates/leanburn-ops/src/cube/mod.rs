//! Kernels of this crate on the CubeCL devices (GPUs), and on a device that records in their place.
//!
//! Products of matrices are Burn's there, autotuned; a convolution, and what is many small operations in a composition, is
//! one kernel here. A kernel is a value with its arguments (`conv.rs`, `norm.rs`, `resample.rs`, `max_pool.rs`), and [`run`] launches
//! it or writes it down. The kernels' source is in `kernels/`, built with the feature `cube` alone.

mod conv;
mod kernel;
#[cfg(feature = "cube")]
mod kernels;
mod launch;
mod max_pool;
mod norm;
mod parts;
mod plain_strides;
mod resample;
mod table;

pub(crate) use conv::{Convolve, ConvolveWeightGradient};
pub(crate) use kernel::run;
pub(crate) use max_pool::{MaxPool, MaxPoolGradient};
pub(crate) use norm::{
    FLOPS_OF_NORM_ACT, FLOPS_OF_STATISTICS, FLOPS_OF_SUMS, GradientMaps, Moments, NormAct, NormActGradient,
    NormActSums, SampledMean,
};
pub(crate) use plain_strides::with_plain_strides;
pub(crate) use resample::Resample;

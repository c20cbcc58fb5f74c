//! Every operation against the same one composed from Burn's own tensor operations in float64.
//!
//! A [`Case`](case::Case) has the shapes of an operation's inputs, and computes output and gradients in every mode that
//! must give the same: float32, float64, half precision, recomputed, on views, with any number of threads.

mod attention;
mod bev_pool;
mod case;
mod conv;
mod conv_transpose;
#[cfg(feature = "cube")]
#[path = "../common/gpu.rs"]
mod device;
mod dropout;
mod geometry;
#[cfg(feature = "cube")]
mod gpu;
#[cfg(feature = "cube")]
#[path = "../common/junction.rs"]
mod junction;
#[cfg(feature = "cube")]
#[path = "../common/level.rs"]
mod level;
mod max_pool;
mod norm;
mod plain;
mod rejected;
mod resample;
mod spectral;
mod window;

//! Operations with a backward of their own: what autodiff keeps between forward and backward is decided here.
//!
//! - Operations on volumes that keep their inputs and nothing else: [`norm_act_conv3d`], [`conv3d`], [`conv_transpose3d`],
//!   [`upsample_conv3d`], [`group_norm_act`], [`activate`], [`attention3d`], [`interpolate3d`], [`avg_pool3d`],
//!   [`adaptive_avg_pool3d`], [`max_pool3d`], [`adaptive_max_pool3d`]. On the CPU they run on kernels of our own
//!   (`leanburn-kernels`), on GPUs on CubeCL kernels of our own and on Burn's convolutions and products of matrices.
//! - [`recompute`]: run part of a model without keeping its intermediate results, and run it again in backward.
//! - [`Residency`] and [`ResidencyPolicy`]: which named segments of a model are kept and which are run again.
//! - [`random`]: the random stream that makes the second run draw the same numbers as the first.
//! - [`numerics`]: the dtype of the activation decides, the one rule of mixed precision.
//! - [`probe`]: what is held in the middle of a step.
//! - [`recording`]: what a recording device is told beyond Burn's operations.
//! - [`backward`]: gradients of a loss by parameter, on every device, the recording one included.

mod attention3d;
mod autodiff;
mod conv3d;
mod conv_transpose3d;
mod cpu;
mod cube;
mod engine;
mod gpu;
mod gradients;
mod group_norm_act;
mod max_pool3d;
mod norm;
pub mod numerics;
mod operation;
pub mod probe;
pub mod random;
mod recompute;
pub mod recording;
mod resample3d;
mod residency;

pub use attention3d::{attention3d, attention3d_in_blocks, largest_attention_block};
pub use conv_transpose3d::{conv_transpose3d, upsample_conv3d};
pub use conv3d::{Convolution, conv3d, norm_act_conv3d};
pub use gpu::{Gpu, is_gpu, use_exclusive_pages};
pub use gradients::{Gradients, backward};
pub use group_norm_act::{activate, group_norm_act};
pub use leanburn_kernels::{Activation, keep_freed_memory};
pub use max_pool3d::{MaxPool3d, adaptive_max_pool3d, max_pool3d};
pub use norm::Norm;
pub use recompute::{Tensors, recompute};
pub use resample3d::{AvgPool3d, Interpolation, adaptive_avg_pool3d, avg_pool3d, interpolate3d};
pub use residency::{Residency, ResidencyPolicy, ResidencyRule};

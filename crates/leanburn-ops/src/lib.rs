//! Operations with a backward of their own: what autodiff saves between forward and backward is decided here.
//!
//! - Operations on volumes that save their inputs and nothing else: [`norm_act_conv3d`], [`conv3d`], [`conv_transpose3d`],
//!   [`upsample_conv3d`], [`group_norm_act`], [`activate`], [`geglu`], [`norm_prelu`], [`norm_prelu_conv3d`], [`attention3d`], [`window_attention3d`], [`layer_norm3d`],
//!   [`interpolate3d`], [`avg_pool3d`], [`adaptive_avg_pool3d`], [`max_pool3d`], [`adaptive_max_pool3d`], [`bev_pool`], [`spectral_conv`]. On the CPU they run
//!   on kernels of our own (`leanburn-kernels`), on GPUs on CubeCL kernels of our own and on Burn's products of matrices.
//! - [`dropout`], [`dropout3d`]: save a key, and make the mask again in backward.
//! - [`recompute`]: run part of a model without saving its intermediate results, and run it again in backward.
//! - [`stream`]: run part of a model in slabs along the depth, forward and backward, group norms and all.
//! - [`Residency`] and [`ResidencyPolicy`]: which named segments of a model keep their intermediate results, which are
//!   recomputed, and which are streamed; [`Storage`]: where what they save lives until then.
//! - [`random`]: random numbers that seed and place decide, and where a segment's come from, so that the second run draws those of the
//!   first.
//! - [`numerics`]: the dtype of the activation decides, the one rule of mixed precision.
//! - [`probe`]: samples of memory in the middle of a step.
//! - [`recording`]: what a recording has beyond Burn's operations: kernel calls and markers.
//! - [`backward`]: gradients of a loss by parameter, on every device, the recording one included.

mod autodiff;
mod cube;
mod engine;
mod gpu;
mod gradients;
mod meanwhile;
pub mod numerics;
mod operations;
pub mod probe;
mod products;
pub mod random;
mod recompute;
pub mod recording;
mod residency;
mod share;
mod storage;
mod stream;

pub use gpu::{Gpu, is_gpu, use_exclusive_pages};
pub use gradients::{Gradients, backward, backward_from};
pub use leanburn_kernels::bev_pool::BevCells;
pub use leanburn_kernels::simd::{Instructions, UnknownInstructions, VARIABLE as INSTRUCTIONS_VARIABLE, instructions};
pub use leanburn_kernels::{
    Activation, CountingAllocator, keep_freed_memory, on_pool, peak_bf16_flops, peak_f32_flops, second_level_cache,
};
pub use operations::attention3d::{attention3d, attention3d_in_blocks, largest_attention_block};
pub use operations::bev_pool::bev_pool;
pub use operations::conv_transpose3d::conv_transpose3d;
pub use operations::conv3d::{Convolution, conv3d, norm_act_conv3d, norm_prelu_conv3d};
pub use operations::dropout::{dropout, dropout3d, in_training, is_in_training};
pub use operations::gather_planes::{gather_planes, own_planes};
pub use operations::geglu::geglu;
pub use operations::layer_norm3d::layer_norm3d;
pub use operations::max_pool3d::{MaxPool3d, adaptive_max_pool3d, max_pool3d};
pub use operations::norm_act::{Norm, activate, group_norm_act, norm_prelu};
pub use operations::rank_sum::{has_rank_sums, sum_over_ranks, with_rank_sums};
pub use operations::resample3d::{AvgPool3d, Interpolation, adaptive_avg_pool3d, avg_pool3d, interpolate3d};
pub use operations::spectral_conv::{Pointwise, SpectralWeights, spectral_conv};
pub use operations::upsample_conv3d::upsample_conv3d;
pub use operations::window_attention3d::{WindowAttention, window_attention3d};
pub use products::{WrongProducts, check_products};
pub use recompute::{Tensors, recompute};
pub use residency::{Residency, ResidencyPolicy, ResidencyRule, StorageRule, with_rules_validated};
pub use share::{EXCHANGE_PLANES, PlannedRanks, VolumeRanks, volume_ranks, with_volume_ranks, with_whole_volumes};
pub use storage::{Storage, StorageError, check_offload_folder, or_storage_error, with_overlapped_writes};
pub use stream::{StageEntry, Stages, StreamKeep, StreamSettings, Unstreamable, Volume, Volumes, stream};

/// What macros of this crate name where they are used.
#[doc(hidden)]
pub mod of_macros {
    pub use burn::backend::DispatchTensor;
    pub use burn::tensor::Device;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

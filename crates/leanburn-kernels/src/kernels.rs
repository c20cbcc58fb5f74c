//! The kernels of each element, compiled here and once.
//!
//! Who calls a generic function compiles it, with the optimisation of the caller's crate: every crate that computes would
//! compile all kernels anew, and a test build those of the operations slowly. A public kernel therefore calls through a
//! table of its element; the tables name the instances, so that they belong to this crate.

use half::{bf16, f16};
use pulp::Arch;

use crate::activation::Activation;
use crate::attention::window::{ParameterGradients, WindowGradients, WindowOperands, WindowShape};
use crate::attention::{Attended, AttentionShape, Gradients};
use crate::axis_map::AxisMap;
use crate::bev_pool::{BevCells, bev_pool_backward_on, bev_pool_on};
use crate::compress::Quantized;
use crate::compress::quantized::{dequantize_on, quantize_on};
use crate::conv::data_gradient::data_gradient_by;
use crate::conv::forward::forward_by;
use crate::conv::gather::problem::Gather;
use crate::conv::method::run_bf16;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::{ConvShape, Input, Prologue};
use crate::dropout::mask::{DropoutMask, dropout_on};
use crate::element::Stored;
use crate::fourier::Transform;
use crate::fourier::planes::{add_volumes_on, to_spectra_on};
use crate::layer_norm::LayerNorm;
use crate::max_pool::PoolWindows;
use crate::norm::{ChannelSums, GroupMoments, GroupStatistics, Norm, NormShape};

/// What the kernels compute on: a stored value of which they are compiled.
///
/// Not to be implemented elsewhere.
pub trait Element: Stored {
    /// The kernels that compute with it.
    #[doc(hidden)]
    fn kernels() -> &'static Kernels<Self>;
}

/// The kernels of an element, each on a given instruction set.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "the types are those of the functions, once each")]
pub struct Kernels<E> {
    pub(crate) attention: fn(Arch, &AttentionShape, &[E], &[E], &[E], &mut [E]) -> Vec<f32>,
    pub(crate) attention_backward: fn(Arch, &AttentionShape, Attended<'_, E>, &[E], Gradients<'_, E>),
    pub(crate) bev_pool: fn(&BevCells, &[E], &[E], &mut [E]),
    pub(crate) bev_pool_backward: fn(&BevCells, [&[E]; 2], &[E], [Option<&mut [E]>; 2]),
    pub(crate) conv: fn(Arch, &ConvShape, Input<'_, E>, &[f32], SharedOutput<'_, E>),
    pub(crate) conv_data_gradient: fn(Arch, &ConvShape, Input<'_, E>, &[f32], SharedOutput<'_, E>),
    pub(crate) gather_workspace: fn(&Gather, Arch) -> usize,
    pub(crate) conv_weight_gradient_workspace: fn(&ConvShape) -> usize,
    pub(crate) conv_weight_gradient: fn(Arch, &ConvShape, Input<'_, E>, Input<'_, E>, &mut [f32]),
    pub(crate) conv_bias_gradient: fn(Arch, usize, usize, &[E], &mut [f32]),
    pub(crate) dequantize: fn(Arch, &Quantized) -> Vec<E>,
    pub(crate) dropout: fn(&DropoutMask, &mut [E]),
    pub(crate) fourier: fn(&Transform, Arch, &[E], Activation, &mut [f32]),
    pub(crate) fourier_transpose: fn(&Transform, Arch, &[f32], &mut [E]),
    pub(crate) layer_norm: fn(&LayerNorm<'_>, Arch, &[E], &mut [E]),
    pub(crate) layer_norm_backward: fn(&LayerNorm<'_>, Arch, &[E], &mut [E]) -> [Vec<f32>; 2],
    pub(crate) max_pool: fn(Arch, &PoolWindows, &[E], &mut [E]),
    pub(crate) max_pool_backward: fn(Arch, usize, &PoolWindows, &[E], &[E], &mut [E]),
    pub(crate) group_moments: fn(Arch, &NormShape, &[E]) -> GroupMoments,
    pub(crate) group_statistics: fn(Arch, &NormShape, &[E], f64) -> GroupStatistics,
    pub(crate) norm: fn(Arch, &NormShape, Option<&[E]>, Prologue<'_>, &mut [E]),
    pub(crate) norm_backward: fn(&Norm<'_>, Arch, &[E], &mut [E]) -> (Vec<f32>, Vec<f32>),
    pub(crate) norm_sums: fn(&Norm<'_>, Arch, &[E], &mut [E]) -> ChannelSums,
    pub(crate) norm_apply: fn(&Norm<'_>, Arch, &[E], &ChannelSums, usize, &mut [E]),
    pub(crate) act_backward: fn(Arch, &[E], Activation, &mut [E]),
    pub(crate) quantize: fn(Arch, &[E], usize, u64) -> Quantized,
    pub(crate) resample: fn(Arch, usize, [&AxisMap; 3], &[E], &mut [E]),
    pub(crate) window_attention: fn(Arch, &WindowShape, WindowOperands<'_, E>, &mut [E]) -> Vec<f32>,
    pub(crate) window_attention_backward: fn(
        Arch,
        &WindowShape,
        WindowOperands<'_, E>,
        (&[E], &[f32]),
        &[E],
        WindowGradients<'_, E>,
    ) -> ParameterGradients,
}

impl<E: Stored> Kernels<E> {
    const fn new() -> Self {
        Self {
            attention: crate::attention::forward::forward_on,
            attention_backward: crate::attention::backward::backward_on,
            bev_pool: bev_pool_on,
            bev_pool_backward: bev_pool_backward_on,
            conv: crate::conv::forward::forward_on,
            conv_data_gradient: crate::conv::data_gradient::data_gradient_on,
            gather_workspace: crate::conv::method::workspace,
            conv_weight_gradient_workspace: crate::conv::weight_gradient::run::workspace,
            conv_weight_gradient: crate::conv::weight_gradient::run::weight_gradient_on,
            conv_bias_gradient: crate::conv::bias_gradient::bias_gradient_on,
            dequantize: dequantize_on,
            dropout: dropout_on,
            fourier: to_spectra_on,
            fourier_transpose: add_volumes_on,
            layer_norm: |norm, arch, x, y| norm.forward_on(arch, x, y),
            layer_norm_backward: |norm, arch, x, gradient| norm.backward_on(arch, x, gradient),
            max_pool: crate::max_pool::forward::max_pool_on,
            max_pool_backward: crate::max_pool::gradient::max_pool_backward_on,
            group_moments: crate::norm::statistics::group_moments_on,
            group_statistics: crate::norm::statistics::group_statistics_on,
            norm: crate::norm::forward::apply_on,
            norm_backward: |norm, arch, x, gradient| norm.backward_on(arch, x, gradient),
            norm_sums: |norm, arch, x, gradient| norm.sums_on(arch, x, gradient),
            norm_apply: |norm, arch, x, sums, positions, gradient| norm.apply_on(arch, x, sums, positions, gradient),
            act_backward: crate::norm::derivative::act_backward_on,
            quantize: quantize_on,
            resample: crate::resample::planes::resample_on,
            window_attention: crate::attention::window::forward::forward_on,
            window_attention_backward: crate::attention::window::backward::backward_on,
        }
    }
}

static OF_F32: Kernels<f32> = Kernels::new();
static OF_F16: Kernels<f16> = Kernels::new();
/// Convolutions take AMX or dot products of AVX-512 BF16 where they are there and fast.
static OF_BF16: Kernels<bf16> = Kernels {
    gather_workspace: crate::conv::method::workspace_bf16,
    conv_weight_gradient_workspace: crate::conv::weight_gradient::run::workspace_bf16,
    conv: |arch, shape, x, weight, y| forward_by(run_bf16, arch, shape, x, weight, y),
    conv_data_gradient: |arch, shape, x, weight, y| data_gradient_by(run_bf16, arch, shape, x, weight, y),
    conv_weight_gradient: crate::conv::weight_gradient::run::weight_gradient_bf16,
    ..Kernels::new()
};

impl Element for f32 {
    fn kernels() -> &'static Kernels<Self> {
        &OF_F32
    }
}

impl Element for f16 {
    fn kernels() -> &'static Kernels<Self> {
        &OF_F16
    }
}

impl Element for bf16 {
    fn kernels() -> &'static Kernels<Self> {
        &OF_BF16
    }
}

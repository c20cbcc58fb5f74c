//! The kernels of each element, compiled here and once.
//!
//! Who calls a generic function compiles it, with the optimisation of the caller's crate: every crate that computes would
//! compile all kernels anew, and a test build those of the operations slowly. A public kernel therefore calls through a
//! table of its element; the tables name the instances, so that they belong to this crate.

use half::{bf16, f16};
use pulp::Arch;

use crate::attention::{self, Attended, AttentionShape, Gradients};
use crate::axis_map::AxisMap;
use crate::conv::{self, ConvShape, Input, Output, Prologue};
use crate::max_pool::{self, PoolWindows};
use crate::norm::{self, GroupStatistics, Norm, NormShape};
use crate::{Activation, Element, resample};

/// The kernels of an element, each on a given instruction set.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "the types are those of the functions, once each")]
pub struct Kernels<E> {
    pub(crate) attention: fn(Arch, &AttentionShape, &[E], &[E], &[E], &mut [E]) -> Vec<f32>,
    pub(crate) attention_backward: fn(Arch, &AttentionShape, Attended<'_, E>, &[E], Gradients<'_, E>),
    pub(crate) conv: fn(Arch, &ConvShape, Input<'_, E>, &[f32], Output<'_, E>),
    pub(crate) conv_data_gradient: fn(Arch, &ConvShape, Input<'_, E>, &[f32], Output<'_, E>),
    pub(crate) conv_weight_gradient: fn(Arch, conv::Lanes, &ConvShape, Input<'_, E>, Input<'_, E>, &mut [f32]),
    pub(crate) conv_bias_gradient: fn(Arch, usize, usize, &[E], &mut [f32]),
    pub(crate) max_pool: fn(Arch, &PoolWindows, &[E], &mut [E]),
    pub(crate) max_pool_backward: fn(Arch, usize, &PoolWindows, &[E], &[E], &mut [E]),
    pub(crate) group_statistics: fn(Arch, &NormShape, &[E], f64) -> GroupStatistics,
    pub(crate) norm: fn(Arch, &NormShape, Option<&[E]>, Prologue<'_>, &mut [E]),
    pub(crate) norm_backward: fn(&Norm<'_>, Arch, &[E], &mut [E]) -> (Vec<f32>, Vec<f32>),
    pub(crate) act_backward: fn(Arch, &[E], Activation, &mut [E]),
    pub(crate) resample: fn(Arch, usize, [&AxisMap; 3], &[E], &mut [E]),
}

impl<E: Element> Kernels<E> {
    const fn new() -> Self {
        Self {
            attention: attention::forward_on,
            attention_backward: attention::backward_on,
            conv: conv::forward_on,
            conv_data_gradient: conv::data_gradient_on,
            conv_weight_gradient: conv::weight_gradient_on,
            conv_bias_gradient: conv::bias_gradient_on,
            max_pool: max_pool::max_pool_on,
            max_pool_backward: max_pool::max_pool_backward_on,
            group_statistics: norm::group_statistics_on,
            norm: norm::apply_on,
            norm_backward: |norm, arch, x, gradient| norm.backward_on(arch, x, gradient),
            act_backward: norm::act_backward_on,
            resample: resample::resample_on,
        }
    }
}

pub(crate) static OF_F32: Kernels<f32> = Kernels::new();
pub(crate) static OF_F16: Kernels<f16> = Kernels::new();
pub(crate) static OF_BF16: Kernels<bf16> = Kernels::new();

//! Scale and shift of each channel of each item, as slices for the kernels of the CPU and as tensors for those of GPUs.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::Activation;
use leanburn_kernels::conv::Prologue;
use leanburn_kernels::norm::GroupStatistics;

use super::normalization::Normalization;
use super::statistics::{norm_shape, spread};
use crate::engine::to_f32;
use crate::numerics::widen;

/// Scale and shift of each channel of each item in the memory of the CPU, and the activation behind them.
pub(crate) struct SliceMap {
    scale: Vec<f32>,
    shift: Vec<f32>,
    activation: Activation,
}

impl SliceMap {
    /// The map of a volume of these dimensions; `None` where there is nothing to do.
    pub(crate) fn of(dims: [usize; 5], normalization: Option<&Normalization>, activation: Activation) -> Option<Self> {
        match normalization {
            None if activation == Activation::None => None,
            None => {
                let count = dims[0] * dims[1];
                Some(Self { scale: vec![1.0; count], shift: vec![0.0; count], activation })
            }
            Some(normalization) => {
                let norm = &normalization.norm;
                let shape = norm_shape(dims, norm.num_groups);
                let (weight, bias) = (norm.weight.as_ref().map(to_f32), norm.bias.as_ref().map(to_f32));
                let statistics = statistics_of(normalization);
                let (scale, shift) = statistics.scale_and_shift(&shape, weight.as_deref(), bias.as_deref());
                Some(Self { scale, shift, activation })
            }
        }
    }

    /// As the kernels take it.
    pub(crate) fn prologue(&self) -> Prologue<'_> {
        Prologue { scale: &self.scale, shift: &self.shift, activation: self.activation }
    }
}

/// The statistics of a normalisation in the memory of the CPU.
pub(super) fn statistics_of(normalization: &Normalization) -> GroupStatistics {
    let deviation_reciprocal = to_f32(&normalization.deviation_reciprocal).to_vec();
    GroupStatistics { mean: to_f32(&normalization.mean).to_vec(), deviation_reciprocal }
}

/// Scale, shift and mean of each channel of each item, each `[batch_size, channels]`, float32.
pub(super) struct TensorMap {
    pub(super) scale: Tensor<2>,
    pub(super) shift: Tensor<2>,
    pub(super) mean: Tensor<2>,
}

impl TensorMap {
    /// The map of a normalisation of `x`; without one, the identity.
    pub(super) fn of(x: &Tensor<5>, normalization: Option<&Normalization>) -> Self {
        let [batch_size, channels, ..] = x.dims();
        match normalization {
            Some(normalization) => Self::of_normalization(normalization, channels),
            None => {
                let shift = Tensor::zeros([batch_size, channels], (&x.device(), DType::F32));
                Self { scale: shift.ones_like(), mean: shift.clone(), shift }
            }
        }
    }

    fn of_normalization(normalization: &Normalization, channels: usize) -> Self {
        let row = |parameter: &Option<Tensor<1>>| -> Option<Tensor<2>> {
            Some(widen(parameter.clone()?).reshape([1, channels]))
        };
        let mean = spread(normalization.mean.clone(), channels);
        let reciprocal = spread(normalization.deviation_reciprocal.clone(), channels);
        let scale = match row(&normalization.norm.weight) {
            Some(weight) => reciprocal * weight,
            None => reciprocal,
        };
        let shift = (mean.clone() * scale.clone()).neg();
        let shift = match row(&normalization.norm.bias) {
            Some(bias) => shift + bias,
            None => shift,
        };
        Self { scale, shift, mean }
    }
}

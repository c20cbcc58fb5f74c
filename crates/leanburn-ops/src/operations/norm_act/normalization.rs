//! A norm with the statistics of one volume.

use burn::tensor::Tensor;

use super::moments::Moments;
use super::norm::Norm;
use super::statistics::{Statistics, spread};
use crate::engine::run;

/// A norm with the statistics of one volume.
#[derive(Clone, Debug)]
pub(crate) struct Normalization {
    pub(super) norm: Norm,
    /// `[batch_size, num_groups]`, float32.
    pub(super) mean: Tensor<2>,
    /// `1 / sqrt(variance + epsilon)`, `[batch_size, num_groups]`, float32.
    pub(super) deviation_reciprocal: Tensor<2>,
}

impl Normalization {
    /// Computes the statistics of `x`, of which the norm [is one](Norm::check).
    pub(crate) fn of(norm: Norm, x: &Tensor<5>) -> Self {
        let [mean, deviation_reciprocal] = run(Statistics { x, num_groups: norm.num_groups, epsilon: norm.epsilon });
        Self { norm, mean, deviation_reciprocal }
    }

    /// The norm of a volume with these moments.
    pub(crate) fn of_moments(norm: Norm, moments: Moments) -> Self {
        let [mean, deviation_reciprocal] = moments.statistics(norm.epsilon);
        Self { norm, mean, deviation_reciprocal }
    }

    /// A value of each group, for each channel: `[batch_size, channels, 1, 1, 1]`.
    pub(super) fn per_channel(&self, values: Tensor<2>, channels: usize) -> Tensor<5> {
        let batch_size = values.dims()[0];
        spread(values, channels).reshape([batch_size, channels, 1, 1, 1])
    }
}

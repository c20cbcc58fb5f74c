//! Mean and deviation of each group of channels of an item.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::norm::{self, NormShape};

use crate::cube::{self, FLOPS_OF_STATISTICS};
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::numerics::widen;
use crate::operations::check::valid;
use crate::recording::{Call, Recorder};

/// Mean, and `1 / sqrt(variance + epsilon)`, of each group: each `[batch_size, num_groups]`, float32.
pub(super) struct Statistics<'a> {
    pub(super) x: &'a Tensor<5>,
    pub(super) num_groups: usize,
    pub(super) epsilon: f64,
}

impl Computation for Statistics<'_> {
    type Output = [Tensor<2>; 2];

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> [Tensor<2>; 2] {
        let flops = FLOPS_OF_STATISTICS * self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "group_statistics").reads(self.x).costs(flops, 0);
        call.record_all([[self.x.dims()[0], self.num_groups]; 2], DType::F32)
    }

    fn on_cpu<E: Stored>(self) -> [Tensor<2>; 2] {
        let dims = self.x.dims();
        let x = CpuTensor::of(self.x.clone());
        let shape = norm_shape(dims, self.num_groups);
        let statistics = norm::group_statistics(&shape, x.values::<E>(), self.epsilon);
        [statistics.mean, statistics.deviation_reciprocal]
            .map(|values| CpuTensor::from_vec(values, [dims[0], self.num_groups]).into_tensor())
    }

    fn on_cube(self) -> [Tensor<2>; 2] {
        with_epsilon(mean_and_variance_on_cube(self.x, self.num_groups), self.epsilon)
    }

    fn composed(self) -> [Tensor<2>; 2] {
        with_epsilon(mean_and_variance(self.x, self.num_groups), self.epsilon)
    }
}

fn with_epsilon([mean, variance]: [Tensor<2>; 2], epsilon: f64) -> [Tensor<2>; 2] {
    [mean, (variance + epsilon).sqrt().recip()]
}

/// Mean and biased variance of each group on a GPU: each `[batch_size, num_groups]`, float32.
///
/// The sums are of differences from a rough mean: where the mean is large, the squares do not cancel.
pub(super) fn mean_and_variance_on_cube(x: &Tensor<5>, groups: usize) -> [Tensor<2>; 2] {
    let [batch_size, channels, depth, height, width] = x.dims();
    let per_group = channels / groups;
    let of_groups = |sums: Tensor<2>| -> Tensor<2> {
        let apart: Tensor<3> = sums.reshape([batch_size, groups, per_group]);
        apart.sum_dim(2).reshape([batch_size, groups])
    };
    let origin = of_groups(cube::run(cube::SampledMean { x })) / per_group as f64;
    let sums = cube::run(cube::Moments { x, origin: spread(origin.clone(), channels) });
    let values = (per_group * depth * height * width) as f64;
    let [offset, square] = sums.map(|sums| of_groups(sums) / values);
    let variance = (square - offset.clone().square()).clamp_min(0.0);
    [origin + offset, variance]
}

/// Mean and biased variance of each group, composed of Burn's operations.
pub(super) fn mean_and_variance(x: &Tensor<5>, groups: usize) -> [Tensor<2>; 2] {
    let batch_size = x.dims()[0];
    let x: Tensor<3> = widen(x.clone()).reshape([batch_size as i64, groups as i64, -1]);
    let mean = x.clone().mean_dim(2);
    let variance = (x - mean.clone()).square().mean_dim(2);
    [mean, variance].map(|values| values.reshape([batch_size, groups]))
}

/// The shape of a norm for the kernels of the CPU.
pub(super) fn norm_shape(dims: [usize; 5], groups: usize) -> NormShape {
    valid("norm", NormShape::new(dims, groups))
}

/// A value of each group, for each channel: `[batch_size, channels]`.
pub(super) fn spread(values: Tensor<2>, channels: usize) -> Tensor<2> {
    let [batch_size, groups] = values.dims();
    let apart: Tensor<3> = values.reshape([batch_size, groups, 1]);
    apart.expand([batch_size, groups, channels / groups]).reshape([batch_size, channels])
}

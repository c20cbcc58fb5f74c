//! Moments of each group of a part of a volume. Those of all parts give the statistics of the whole.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::norm;

use super::statistics::{mean_and_variance, mean_and_variance_on_cube, norm_shape};
use crate::cube::FLOPS_OF_STATISTICS;
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::numerics::cast_to;
use crate::operations::rank_sum::{has_rank_sums, sum_over_ranks};
use crate::recording::{Call, Recorder};

/// Count, mean and centred sum of squares of each group, float64 on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// Values of a group.
    count: f64,
    /// `[batch_size, num_groups]`.
    mean: Tensor<2>,
    /// `[batch_size, num_groups]`.
    squares: Tensor<2>,
    /// Of the statistics.
    dtype: DType,
}

/// Mean and variance of each channel over a batch, each `[channels]`, float32 unless the volume is float64.
#[derive(Clone, Debug)]
pub(crate) struct ChannelStatistics {
    pub(crate) mean: Tensor<1>,
    pub(crate) variance: Tensor<1>,
    /// Values of a channel.
    pub(crate) count: usize,
}

impl Moments {
    /// The moments of `x`.
    pub(crate) fn of(x: &Tensor<5>, num_groups: usize) -> Self {
        let [_, channels, depth, height, width] = x.dims();
        let [mean, squares] = run(PartMoments { x, num_groups });
        let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        Self { count: (channels / num_groups * depth * height * width) as f64, mean, squares, dtype }
    }

    /// The moments of both together, as [Chan, Golub and LeVeque](https://doi.org/10.1007/978-3-642-51461-6_3) update them: nothing is
    /// lost where the mean is much larger than the deviation.
    pub(crate) fn merged(self, other: Self) -> Self {
        let count = self.count + other.count;
        let share = other.count / count;
        let difference = other.mean - self.mean.clone();
        Self {
            count,
            mean: self.mean + difference.clone() * share,
            squares: self.squares + other.squares + difference.square() * (self.count * share),
            dtype: self.dtype,
        }
    }

    /// Those of a volume whose other parts, as many values each, other processes have; `gather` gives what all have of a tensor.
    pub(crate) fn of_all(self, gather: impl Fn(Tensor<3>) -> Vec<Tensor<3>>) -> Self {
        let (count, dtype) = (self.count, self.dtype);
        let part = |[mean, squares]: [Tensor<2>; 2]| Self { count, mean, squares, dtype };
        let parts = gather_pairs([self.mean, self.squares], gather).map(part);
        parts.reduce(Self::merged).expect("this process has a part")
    }

    /// Those of each group over all items of the batch, for each item; of all processes' batches where they [are summed](sum_over_ranks).
    pub(crate) fn of_batch(self) -> Self {
        let Self { count, mean, squares, dtype } = self;
        let dims @ [batch_size, _] = mean.dims();
        let of_all = mean.clone().mean_dim(0);
        let squares = (squares + (mean - of_all.clone()).square() * count).sum_dim(0);
        let of_batch = Self { count: count * batch_size as f64, mean: of_all, squares, dtype };
        let Self { count, mean, squares, dtype } = of_batch.of_ranks();
        Self { count, mean: mean.expand(dims), squares: squares.expand(dims), dtype }
    }

    /// Those of the batches of all processes: one exchange of counts and means, one of squares.
    fn of_ranks(self) -> Self {
        if !has_rank_sums() {
            return self;
        }
        let Self { count, mean, squares, dtype } = self;
        let groups = mean.dims()[1];
        let own = Tensor::full([1, 1], count, (&mean.device(), mean.dtype()));
        let sums = sum_over_ranks(Tensor::cat(vec![mean.clone() * count, own], 1));
        let count_of_all = sums.clone().narrow(1, groups, 1).into_scalar::<f64>();
        let mean_of_all = sums.narrow(1, 0, groups) / count_of_all;
        let squares = sum_over_ranks(squares + (mean - mean_of_all.clone()).square() * count);
        Self { count: count_of_all, mean: mean_of_all, squares, dtype }
    }

    /// The statistics of each channel, where each is a group and the items [have the same](Self::of_batch).
    pub(crate) fn of_channels(&self) -> ChannelStatistics {
        let of_first = |values: Tensor<2>| cast_to(values.narrow(0, 0, 1).squeeze_dim(0), self.dtype);
        let variance = of_first(self.squares.clone() / self.count);
        ChannelStatistics { mean: of_first(self.mean.clone()), variance, count: self.count as usize }
    }

    /// Mean, and `1 / sqrt(variance + epsilon)`, of each group, float32 unless the volume is float64.
    pub(super) fn statistics(self, epsilon: f64) -> [Tensor<2>; 2] {
        let reciprocal = (self.squares / self.count + epsilon).sqrt().recip();
        [self.mean, reciprocal].map(|values| cast_to(values, self.dtype))
    }
}

/// What all processes have of two tensors of the same shape.
pub(super) fn gather_pairs(
    pair: [Tensor<2>; 2],
    gather: impl Fn(Tensor<3>) -> Vec<Tensor<3>>,
) -> impl Iterator<Item = [Tensor<2>; 2]> {
    let of = |both: &Tensor<3>, index: usize| both.clone().narrow(0, index, 1).squeeze_dim(0);
    gather(Tensor::stack(pair.into(), 0)).into_iter().map(move |both| [of(&both, 0), of(&both, 1)])
}

/// Mean and centred sum of squares of each group: each `[batch_size, num_groups]`.
struct PartMoments<'a> {
    x: &'a Tensor<5>,
    num_groups: usize,
}

impl PartMoments<'_> {
    fn of_variance(&self, [mean, variance]: [Tensor<2>; 2]) -> [Tensor<2>; 2] {
        let [_, channels, depth, height, width] = self.x.dims();
        [mean, variance * (channels / self.num_groups * depth * height * width) as f64]
    }
}

impl Computation for PartMoments<'_> {
    type Output = [Tensor<2>; 2];

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> [Tensor<2>; 2] {
        let flops = FLOPS_OF_STATISTICS * self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "group_moments").reads(self.x).costs(flops, 0);
        call.record_all([[self.x.dims()[0], self.num_groups]; 2], DType::F64)
    }

    fn on_cpu<E: Stored>(self) -> [Tensor<2>; 2] {
        let dims = self.x.dims();
        let x = CpuTensor::of(self.x.clone());
        let moments = norm::group_moments(&norm_shape(dims, self.num_groups), x.values::<E>());
        [moments.mean, moments.squares].map(|values| CpuTensor::from_f64(values, [dims[0], self.num_groups]))
    }

    fn on_cube(self) -> [Tensor<2>; 2] {
        self.of_variance(mean_and_variance_on_cube(self.x, self.num_groups))
    }

    fn composed(self) -> [Tensor<2>; 2] {
        self.of_variance(mean_and_variance(self.x, self.num_groups))
    }
}

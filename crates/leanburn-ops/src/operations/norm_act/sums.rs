//! The gradient of `activation(norm(x))` in two passes over parts of a volume: sums of all parts, then the gradient of each.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::{Activation, norm};

use super::channel_map::{TensorMap, statistics_of};
use super::composed::{activate_gradient, normalize};
use super::moments::gather_pairs;
use super::normalization::Normalization;
use super::statistics::{norm_shape, spread};
use crate::cube::{self, FLOPS_OF_SUMS};
use crate::engine::{Computation, CpuTensor, Engine, Stored, to_f32};
use crate::numerics::{cast_to, widen};
use crate::operations::rank_sum::{has_rank_sums, sum_over_ranks};
use crate::recording::{Call, Recorder};

/// Sums over the positions of each channel of the gradient before the activation, `h`: what the gradient of a norm needs to know of the
/// whole volume. Each `[batch_size, channels]`, float64 on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSums {
    /// Of `h`.
    plain: Tensor<2>,
    /// Of `h * (x - mean)`.
    centred: Tensor<2>,
}

impl ChannelSums {
    /// The sums over the positions of both.
    pub(crate) fn added(self, other: Self) -> Self {
        Self { plain: self.plain + other.plain, centred: self.centred + other.centred }
    }

    /// Those of a volume whose other parts other processes have, added in the order of processes; `gather` gives what all have of a tensor.
    pub(crate) fn of_all(self, gather: impl Fn(Tensor<3>) -> Vec<Tensor<3>>) -> Self {
        let parts = gather_pairs([self.plain, self.centred], gather).map(|[plain, centred]| Self { plain, centred });
        parts.reduce(Self::added).expect("this process has a part")
    }

    /// What each item of the batch has of the sums over all, where the statistics are those of all: of the batches of all processes where
    /// they [are summed](sum_over_ranks), in one exchange. `positions` are those of a channel of the whole volume.
    pub(crate) fn of_batch(self, positions: usize) -> Self {
        let dims @ [batch_size, channels] = self.plain.dims();
        if !has_rank_sums() {
            let [plain, centred] = [self.plain, self.centred].map(|sums| sums.mean_dim(0).expand(dims));
            return Self { plain, centred };
        }
        let values = (batch_size * positions) as f64;
        let count = Tensor::full([1, 1], values, (&self.plain.device(), self.plain.dtype()));
        let own = Tensor::cat(vec![self.plain.sum_dim(0), self.centred.sum_dim(0), count], 1);
        let of_all = sum_over_ranks(own);
        let share = positions as f64 / of_all.clone().narrow(1, 2 * channels, 1).into_scalar::<f64>();
        let [plain, centred] = [0, channels].map(|at| (of_all.clone().narrow(1, at, channels) * share).expand(dims));
        Self { plain, centred }
    }

    /// The gradients of the norm's weight and bias, where it has them.
    pub(crate) fn parameter_gradients(&self, normalization: &Normalization) -> [Option<Tensor<1>>; 2] {
        let channels = self.plain.dims()[1];
        let gradient = |parameter: &Option<Tensor<1>>, sums: &dyn Fn() -> Tensor<2>| {
            let parameter = parameter.as_ref()?;
            Some(cast_to(sums().sum_dim(0).reshape([channels]), parameter.dtype()))
        };
        let reciprocal = || spread(normalization.deviation_reciprocal.clone(), channels);
        let weight = gradient(&normalization.norm.weight, &|| {
            self.centred.clone() * cast_to(reciprocal(), self.centred.dtype())
        });
        [weight, gradient(&normalization.norm.bias, &|| self.plain.clone())]
    }

    /// The factor of `x - mean` and what is added, in the gradient of a volume with so many positions: with `r` the reciprocal of the
    /// standard deviation, `-r^3` and `-r` times the averages over the group of `weight h (x - mean)` and `weight h`.
    fn maps(&self, normalization: &Normalization, positions: usize) -> [Tensor<2>; 2] {
        let [batch_size, channels] = self.plain.dims();
        let groups = normalization.norm.num_groups;
        let weighted = |sums: &Tensor<2>| -> Tensor<2> {
            let sums = match &normalization.norm.weight {
                Some(weight) => sums.clone() * cast_to(weight.clone(), sums.dtype()).reshape([1, channels]),
                None => sums.clone(),
            };
            let apart: Tensor<3> = sums.reshape([batch_size, groups, channels / groups]);
            apart.sum_dim(2).reshape([batch_size, groups])
        };
        let reciprocal = &normalization.deviation_reciprocal;
        let share = reciprocal.clone() / -((channels / groups * positions) as f64);
        let offset = spread(share.clone() * weighted(&self.plain), channels);
        [spread(share * reciprocal.clone().square() * weighted(&self.centred), channels), offset]
    }
}

/// The sums over a part of a volume, which has the statistics of the whole.
pub(crate) struct NormActSums<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) normalization: &'a Normalization,
    pub(crate) activation: Activation,
    /// Written over if nothing else holds it.
    pub(crate) gradient: Tensor<5>,
}

impl Computation for NormActSums<'_> {
    type Output = ChannelSums;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> ChannelSums {
        let flops = FLOPS_OF_SUMS * self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "norm_act_sums").reads(self.x).takes(self.gradient).costs(flops, 0);
        let [batch_size, channels, ..] = self.x.dims();
        let [plain, centred] = call.record_all([[batch_size, channels]; 2], DType::F64);
        ChannelSums { plain, centred }
    }

    fn on_cpu<E: Stored>(self) -> ChannelSums {
        let Self { x, normalization, activation, gradient } = self;
        let dims @ [batch_size, channels, ..] = x.dims();
        let (x, mut gradient) = (CpuTensor::of(x.clone()), CpuTensor::of(gradient));
        let sums = with_norm(dims, normalization, activation, |norm| {
            norm::group_norm_act_sums(norm, x.values::<E>(), gradient.values_mut::<E>())
        });
        let [plain, centred] = [sums.plain, sums.centred].map(|sums| CpuTensor::from_f64(sums, [batch_size, channels]));
        ChannelSums { plain, centred }
    }

    fn on_cube(self) -> ChannelSums {
        let Self { x, normalization, activation, gradient } = self;
        let TensorMap { scale, shift, mean } = TensorMap::of(x, Some(normalization));
        let sums = cube::NormActSums { x, gradient: &gradient, scale, shift, mean, activation };
        let [plain, centred] = cube::run(sums);
        ChannelSums { plain, centred }
    }

    fn composed(self) -> ChannelSums {
        let Self { x, normalization, activation, gradient } = self;
        let [batch_size, channels, ..] = x.dims();
        let x = widen(x.clone());
        let h = activate_gradient(normalize(x.clone(), Some(normalization)), activation, widen(gradient));
        let centred = x - normalization.per_channel(normalization.mean.clone(), channels);
        let sums = |volume: Tensor<5>| -> Tensor<2> {
            let rows: Tensor<3> = volume.reshape([batch_size as i64, channels as i64, -1]);
            rows.sum_dim(2).reshape([batch_size, channels])
        };
        ChannelSums { plain: sums(h.clone()), centred: sums(h * centred) }
    }
}

/// The gradient of a part of a volume, from the sums over the whole.
pub(crate) struct NormActApply<'a> {
    pub(crate) x: Tensor<5>,
    pub(crate) normalization: &'a Normalization,
    pub(crate) activation: Activation,
    /// Written over if nothing else holds it.
    pub(crate) gradient: Tensor<5>,
    pub(crate) sums: &'a ChannelSums,
    /// Of a channel of the whole volume.
    pub(crate) positions: usize,
}

impl Computation for NormActApply<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let flops = FLOPS_OF_SUMS * self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "norm_act_apply").costs(flops, 0);
        let call = call.takes(self.x).writes_over(self.gradient).reads(&self.sums.plain).reads(&self.sums.centred);
        call.record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let Self { x, normalization, activation, gradient, sums, positions } = self;
        let dims = x.dims();
        let (x, mut gradient) = (CpuTensor::of(x), CpuTensor::of(gradient));
        let [plain, centred] = [&sums.plain, &sums.centred].map(CpuTensor::to_f64);
        let sums = norm::ChannelSums { plain, centred };
        with_norm(dims, normalization, activation, |norm| {
            norm::group_norm_act_apply(norm, x.values::<E>(), &sums, positions, gradient.values_mut::<E>());
        });
        gradient.into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        let Self { x, normalization, activation, gradient, sums, positions } = self;
        let TensorMap { scale, shift, mean } = TensorMap::of(&x, Some(normalization));
        let [centered_scale, offset] = sums.maps(normalization, positions);
        let maps = cube::GradientMaps { scale, shift, mean, centered_scale, offset };
        cube::run(cube::NormActGradient { x, gradient, maps, activation })
    }

    fn composed(self) -> Tensor<5> {
        let Self { x, normalization, activation, gradient, sums, positions } = self;
        let (dtype, [batch_size, channels, ..]) = (x.dtype(), x.dims());
        let x = widen(x);
        let h = activate_gradient(normalize(x.clone(), Some(normalization)), activation, widen(gradient));
        let centred = x.clone() - normalization.per_channel(normalization.mean.clone(), channels);
        let volume = |row: Tensor<2>| cast_to(row.reshape([batch_size, channels, 1, 1, 1]), x.dtype());
        let [of_centred, offset] = sums.maps(normalization, positions).map(volume);
        let scale = volume(TensorMap::of(&x, Some(normalization)).scale);
        cast_to(h * scale + centred * of_centred + offset, dtype)
    }
}

/// Runs `compute` with the norm of a part of these dimensions, as the kernels take it.
fn with_norm<T>(
    dims: [usize; 5],
    normalization: &Normalization,
    activation: Activation,
    compute: impl FnOnce(&norm::Norm<'_>) -> T,
) -> T {
    let (shape, statistics) = (norm_shape(dims, normalization.norm.num_groups), statistics_of(normalization));
    let [weight, bias] =
        [&normalization.norm.weight, &normalization.norm.bias].map(|values| values.as_ref().map(to_f32));
    compute(&norm::Norm::new(&shape, &statistics, [weight.as_deref(), bias.as_deref()], activation))
}

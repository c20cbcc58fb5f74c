//! Group normalisation and activation: statistics, forward, backward.

use burn::tensor::{DType, Tensor, activation};
use leanburn_kernels::{
    Activation,
    conv::Prologue,
    norm::{self, GroupStatistics, NormShape},
};

use crate::Norm;
use crate::cpu::{CpuTensor, to_f32, with_element};
use crate::cube::{self, FLOPS_OF_NORM_ACT, FLOPS_OF_STATISTICS, FLOPS_OF_SUMS};
use crate::numerics::{cast_to, widen};
use crate::recording::Call;

/// Floating-point operations for each value, roughly: those of the sums and of the gradient.
const FLOPS_OF_NORM_ACT_GRADIENT: u64 = 2 * FLOPS_OF_SUMS;

/// A norm with the statistics of one volume.
#[derive(Clone, Debug)]
pub(crate) struct Normalization {
    norm: Norm,
    /// `[batch_size, num_groups]`, float32.
    mean: Tensor<2>,
    /// `1 / sqrt(variance + epsilon)`, `[batch_size, num_groups]`, float32.
    deviation_reciprocal: Tensor<2>,
}

/// Scale and shift of each channel of each item, in the memory of the CPU.
pub(crate) struct ChannelMap {
    scale: Vec<f32>,
    shift: Vec<f32>,
    activation: Activation,
}

impl ChannelMap {
    pub(crate) fn prologue(&self) -> Prologue<'_> {
        Prologue { scale: &self.scale, shift: &self.shift, activation: self.activation }
    }
}

/// Gradients of the volume and of the norm's scale and shift.
pub(crate) struct NormGradients {
    pub(crate) x: Tensor<5>,
    pub(crate) weight: Option<Tensor<1>>,
    pub(crate) bias: Option<Tensor<1>>,
}

impl Normalization {
    /// Computes the statistics of `x`.
    pub(crate) fn of(norm: Norm, x: &Tensor<5>) -> Self {
        let dims @ [batch_size, channels, ..] = x.dims();
        norm.check(channels);
        let groups = norm.num_groups;
        if let Some(call) = Call::on("group_statistics", x) {
            let call = call.reads(x).costs(FLOPS_OF_STATISTICS * x.shape().num_elements() as u64, 0);
            let call = call.gives([batch_size, groups], DType::F32).gives([batch_size, groups], DType::F32);
            let mut statistics = call.record().map(Tensor::from_dispatch);
            let mut next = || statistics.next().expect("two outputs were asked for");
            return Self { norm, mean: next(), deviation_reciprocal: next() };
        }
        if cube::holds(x) {
            return Self::on_gpu(norm, x);
        }
        let (mean, deviation_reciprocal) = match CpuTensor::holds(x) {
            true => {
                let x = CpuTensor::of(x.clone());
                let shape = norm_shape(dims, groups);
                let statistics =
                    with_element!(x.dtype(), E => norm::group_statistics(&shape, x.values::<E>(), norm.epsilon));
                let tensor = |values| CpuTensor::from_vec(values, [batch_size, groups]).into_tensor();
                (tensor(statistics.mean), tensor(statistics.deviation_reciprocal))
            }
            false => {
                let x: Tensor<3> = widen(x.clone()).reshape([batch_size as i64, groups as i64, -1]);
                let mean = x.clone().mean_dim(2);
                let variance = (x - mean.clone()).square().mean_dim(2);
                let reciprocal = (variance + norm.epsilon).sqrt().recip();
                (mean.reshape([batch_size, groups]), reciprocal.reshape([batch_size, groups]))
            }
        };
        Self { norm, mean, deviation_reciprocal }
    }

    /// The sums are of differences from a rough mean: where the mean is large, the squares do not cancel.
    fn on_gpu(norm: Norm, x: &Tensor<5>) -> Self {
        let [batch_size, channels, depth, height, width] = x.dims();
        let (groups, per_group) = (norm.num_groups, channels / norm.num_groups);
        let of_groups = |sums: Tensor<2>| -> Tensor<2> {
            let apart: Tensor<3> = sums.reshape([batch_size, groups, per_group]);
            apart.sum_dim(2).reshape([batch_size, groups])
        };
        let origin = of_groups(cube::sampled_mean(x)) / per_group as f64;
        let sums = cube::moments(x, spread(origin.clone(), channels));
        let values = (per_group * depth * height * width) as f64;
        let [offset, square] = sums.map(|sums| of_groups(sums) / values);
        let variance = (square - offset.clone().square()).clamp_min(0.0);
        let deviation_reciprocal = (variance + norm.epsilon).sqrt().recip();
        Self { norm, mean: origin + offset, deviation_reciprocal }
    }

    fn statistics(&self) -> GroupStatistics {
        GroupStatistics { mean: to_f32(&self.mean), deviation_reciprocal: to_f32(&self.deviation_reciprocal) }
    }

    /// A value of each group, for each channel: `[batch_size, channels, 1, 1, 1]`.
    fn per_channel(&self, values: Tensor<2>, channels: usize) -> Tensor<5> {
        let batch_size = values.dims()[0];
        spread(values, channels).reshape([batch_size, channels, 1, 1, 1])
    }

    /// The affine map of each channel of each item.
    fn maps(&self, channels: usize) -> Maps {
        let row = |parameter: &Option<Tensor<1>>| -> Option<Tensor<2>> {
            Some(widen(parameter.clone()?).reshape([1, channels]))
        };
        let (mean, reciprocal) = (spread(self.mean.clone(), channels), self.deviation_reciprocal.clone());
        let reciprocal = spread(reciprocal, channels);
        let scale = match row(&self.norm.weight) {
            Some(weight) => reciprocal * weight,
            None => reciprocal,
        };
        let shift = (mean.clone() * scale.clone()).neg();
        let shift = match row(&self.norm.bias) {
            Some(bias) => shift + bias,
            None => shift,
        };
        Maps { scale, shift, mean }
    }
}

fn norm_shape([batch_size, channels, depth, height, width]: [usize; 5], groups: usize) -> NormShape {
    NormShape { batch_size, channels, positions: depth * height * width, groups }
}

/// A value of each group, for each channel: `[batch_size, channels]`.
fn spread(values: Tensor<2>, channels: usize) -> Tensor<2> {
    let [batch_size, groups] = values.dims();
    let apart: Tensor<3> = values.reshape([batch_size, groups, 1]);
    apart.expand([batch_size, groups, channels / groups]).reshape([batch_size, channels])
}

/// Scale, shift and mean of each channel of each item, each `[batch_size, channels]`, for the kernels of GPUs.
struct Maps {
    scale: Tensor<2>,
    shift: Tensor<2>,
    mean: Tensor<2>,
}

impl Maps {
    /// Those of a normalisation; without one, those that change nothing.
    fn of(x: &Tensor<5>, normalization: Option<&Normalization>) -> Self {
        let [batch_size, channels, ..] = x.dims();
        match normalization {
            Some(normalization) => normalization.maps(channels),
            None => {
                let shift = Tensor::zeros([batch_size, channels], (&x.device(), DType::F32));
                Self { scale: shift.ones_like(), mean: shift.clone(), shift }
            }
        }
    }
}

/// Scale and shift for the kernels; `None` where nothing is to be done.
pub(crate) fn channel_map(
    dims: [usize; 5],
    normalization: Option<&Normalization>,
    activation: Activation,
) -> Option<ChannelMap> {
    match normalization {
        None if activation == Activation::None => None,
        None => {
            let count = dims[0] * dims[1];
            Some(ChannelMap { scale: vec![1.0; count], shift: vec![0.0; count], activation })
        }
        Some(normalization) => {
            let norm = &normalization.norm;
            let shape = norm_shape(dims, norm.num_groups);
            let (weight, bias) = (norm.weight.as_ref().map(to_f32), norm.bias.as_ref().map(to_f32));
            let statistics = normalization.statistics();
            let (scale, shift) = statistics.scale_and_shift(&shape, weight.as_deref(), bias.as_deref());
            Some(ChannelMap { scale, shift, activation })
        }
    }
}

/// The normalised and activated volume.
pub(crate) fn apply(x: Tensor<5>, normalization: Option<&Normalization>, activation: Activation) -> Tensor<5> {
    if normalization.is_none() && activation == Activation::None {
        return x;
    }
    if let Some(call) = Call::on("norm_act", &x) {
        let (dims, dtype) = (x.dims(), x.dtype());
        let call = call.costs(FLOPS_OF_NORM_ACT * x.shape().num_elements() as u64, 0);
        return call.writes_over(x).record_one(dims, dtype);
    }
    if cube::holds(&x) {
        let Maps { scale, shift, .. } = Maps::of(&x, normalization);
        return cube::norm_act(x, [scale, shift], activation);
    }
    if !CpuTensor::holds(&x) {
        let dtype = x.dtype();
        return cast_to(activate(normalize(widen(x), normalization), activation), dtype);
    }
    let dims = x.dims();
    let map = channel_map(dims, normalization, activation).expect("there is something to do");
    let mut x = CpuTensor::of(x);
    let shape = norm_shape(dims, 1);
    with_element!(x.dtype(), E => match x.is_unique() {
        true => {
            norm::apply_in_place(&shape, x.values_mut::<E>(), map.prologue());
            x.into_tensor()
        }
        false => {
            let mut y = CpuTensor::zeros::<E, 5>(dims);
            norm::apply(&shape, x.values::<E>(), map.prologue(), y.values_mut::<E>());
            y.into_tensor()
        }
    })
}

/// From the gradient of the normalised and activated volume to those of the volume and of the norm's parameters.
pub(crate) fn backward(
    x: Tensor<5>,
    normalization: Option<Normalization>,
    activation: Activation,
    gradient: Tensor<5>,
) -> NormGradients {
    if let Some(call) = Call::on("norm_act_gradient", &x) {
        return recorded_backward(call, x, normalization, gradient);
    }
    if cube::holds(&x) {
        return cube_backward(x, normalization, activation, gradient);
    }
    if !CpuTensor::holds(&x) {
        return composed_backward(x, normalization, activation, gradient);
    }
    let dims = x.dims();
    let x = CpuTensor::of(x);
    let mut gradient = CpuTensor::of(gradient);
    let Some(normalization) = normalization else {
        if activation != Activation::None {
            with_element!(x.dtype(), E => norm::act_backward(x.values::<E>(), activation, gradient.values_mut::<E>()));
        }
        return NormGradients { x: gradient.into_tensor(), weight: None, bias: None };
    };
    let norm = &normalization.norm;
    let shape = norm_shape(dims, norm.num_groups);
    let statistics = normalization.statistics();
    let (weight, bias) = (norm.weight.as_ref().map(to_f32), norm.bias.as_ref().map(to_f32));
    let (weight_gradient, bias_gradient) = with_element!(x.dtype(), E => norm::group_norm_act_backward(
        &shape, x.values::<E>(), &statistics, weight.as_deref(), bias.as_deref(), activation, gradient.values_mut::<E>(),
    ));
    let like = |parameter: &Option<Tensor<1>>, values: Vec<f32>| {
        let parameter = parameter.as_ref()?;
        Some(cast_to(CpuTensor::from_vec(values, [dims[1]]).into_tensor(), parameter.dtype()))
    };
    NormGradients {
        x: gradient.into_tensor(),
        weight: like(&norm.weight, weight_gradient),
        bias: like(&norm.bias, bias_gradient),
    }
}

/// On a GPU. With `s` the gradient before the activation, `n` the values of a group and `r` its reciprocal of the standard
/// deviation, the gradient of the volume is `scale s - r / n (sum(weight s) + r^2 (x - mean) sum(weight s (x - mean)))`.
fn cube_backward(
    x: Tensor<5>,
    normalization: Option<Normalization>,
    activation: Activation,
    gradient: Tensor<5>,
) -> NormGradients {
    let [batch_size, channels, depth, height, width] = x.dims();
    let Maps { scale, shift, mean } = Maps::of(&x, normalization.as_ref());
    let Some(Normalization { norm, deviation_reciprocal, .. }) = normalization else {
        let nothing = shift.zeros_like();
        let maps = [scale, shift, mean, nothing.clone(), nothing];
        let x = cube::norm_act_gradient(x, gradient, maps, activation);
        return NormGradients { x, weight: None, bias: None };
    };
    let maps = [&scale, &shift, &mean].map(Tensor::clone);
    let [sums, products] = cube::norm_act_sums(&x, &gradient, maps, activation);

    let groups = norm.num_groups;
    let values = (channels / groups * depth * height * width) as f64;
    let weighted = |sums: &Tensor<2>| -> Tensor<2> {
        let sums = match &norm.weight {
            Some(weight) => sums.clone() * widen(weight.clone()).reshape([1, channels]),
            None => sums.clone(),
        };
        let apart: Tensor<3> = sums.reshape([batch_size, groups, channels / groups]);
        apart.sum_dim(2).reshape([batch_size, groups])
    };
    let share = deviation_reciprocal.clone() / -values;
    let offset = spread(share.clone() * weighted(&sums), channels);
    let slant = spread(share * deviation_reciprocal.clone().square() * weighted(&products), channels);

    let parameter = |parameter: &Option<Tensor<1>>, sums: Tensor<2>| {
        parameter.as_ref().map(|parameter| cast_to(sums.sum_dim(0).reshape([channels]), parameter.dtype()))
    };
    let weight = parameter(&norm.weight, products * spread(deviation_reciprocal, channels));
    let bias = parameter(&norm.bias, sums);
    let x = cube::norm_act_gradient(x, gradient, [scale, shift, mean, slant, offset], activation);
    NormGradients { x, weight, bias }
}

/// On a recording device: the gradient is written over where nobody else holds it.
fn recorded_backward(
    call: Call,
    x: Tensor<5>,
    normalization: Option<Normalization>,
    gradient: Tensor<5>,
) -> NormGradients {
    let (dims, dtype) = (x.dims(), x.dtype());
    let call = call.costs(FLOPS_OF_NORM_ACT_GRADIENT * x.shape().num_elements() as u64, 0);
    let call = call.takes(x).writes_over(gradient).gives(dims, dtype);
    let norm = normalization.map(|normalization| normalization.norm);
    let dtype_of = |parameter: Option<&Option<Tensor<1>>>| Some(parameter?.as_ref()?.dtype());
    let weight = dtype_of(norm.as_ref().map(|norm| &norm.weight));
    let bias = dtype_of(norm.as_ref().map(|norm| &norm.bias));
    let call = [weight, bias].into_iter().flatten().fold(call, |call, dtype| call.gives([dims[1]], dtype));
    let mut outputs = call.record();
    let mut next = || outputs.next().expect("as many outputs as were asked for");
    let x = Tensor::from_dispatch(next());
    NormGradients {
        x,
        weight: weight.map(|_| Tensor::from_dispatch(next())),
        bias: bias.map(|_| Tensor::from_dispatch(next())),
    }
}

/// `(x - mean) * deviation_reciprocal * weight + bias`.
fn normalize(x: Tensor<5>, normalization: Option<&Normalization>) -> Tensor<5> {
    let Some(normalization) = normalization else { return x };
    let channels = x.dims()[1];
    let norm = &normalization.norm;
    let mut scale = normalization.per_channel(normalization.deviation_reciprocal.clone(), channels);
    if let Some(weight) = &norm.weight {
        scale = scale * cast_to(weight.clone(), x.dtype()).reshape([1, channels, 1, 1, 1]);
    }
    let y = (x - normalization.per_channel(normalization.mean.clone(), channels)) * scale;
    match &norm.bias {
        Some(bias) => {
            let bias = cast_to(bias.clone(), y.dtype());
            y + bias.reshape([1, channels, 1, 1, 1])
        }
        None => y,
    }
}

fn activate(x: Tensor<5>, function: Activation) -> Tensor<5> {
    match function {
        Activation::None => x,
        Activation::Silu => activation::silu(x),
        Activation::Relu => activation::relu(x),
        Activation::LeakyRelu(slope) => activation::leaky_relu(x, f64::from(slope)),
    }
}

/// The gradient before the activation, from the gradient behind it.
fn activate_backward(x: Tensor<5>, function: Activation, gradient: Tensor<5>) -> Tensor<5> {
    match function {
        Activation::None => gradient,
        Activation::Silu => {
            let sigmoid = activation::sigmoid(x.clone());
            let rest = sigmoid.clone().neg() + 1.0;
            gradient * (sigmoid.clone() + x * sigmoid * rest)
        }
        Activation::Relu => gradient.mask_fill(x.lower_equal_elem(0.0), 0.0),
        Activation::LeakyRelu(slope) => {
            let scaled = gradient.clone() * slope;
            gradient.mask_where(x.lower_equal_elem(0.0), scaled)
        }
    }
}

fn composed_backward(
    x: Tensor<5>,
    normalization: Option<Normalization>,
    function: Activation,
    gradient: Tensor<5>,
) -> NormGradients {
    let dtype = x.dtype();
    let (x, gradient) = (widen(x), widen(gradient));
    let gradient = activate_backward(normalize(x.clone(), normalization.as_ref()), function, gradient);
    let Some(normalization) = normalization else {
        return NormGradients { x: cast_to(gradient, dtype), weight: None, bias: None };
    };
    let dims @ [batch_size, channels, ..] = x.dims();
    let norm = &normalization.norm;
    let groups = norm.num_groups;
    let rows = |volume: Tensor<5>| -> Tensor<3> { volume.reshape([batch_size as i64, groups as i64, -1]) };
    let sums = |volume: Tensor<5>| -> Tensor<1> {
        let channelwise: Tensor<3> = volume.reshape([batch_size as i64, channels as i64, -1]);
        channelwise.sum_dim(2).sum_dim(0).reshape([channels])
    };
    let reciprocal = normalization.per_channel(normalization.deviation_reciprocal.clone(), channels);
    let normal = (x - normalization.per_channel(normalization.mean.clone(), channels)) * reciprocal;
    let parameter = |parameter: &Option<Tensor<1>>, gradient: Tensor<5>| {
        parameter.as_ref().map(|parameter| cast_to(sums(gradient), parameter.dtype()))
    };
    let weight = parameter(&norm.weight, gradient.clone() * normal.clone());
    let bias = parameter(&norm.bias, gradient.clone());
    let scaled = match &norm.weight {
        Some(weight) => {
            let weight = cast_to(weight.clone(), gradient.dtype());
            gradient * weight.reshape([1, channels, 1, 1, 1])
        }
        None => gradient,
    };
    let (scaled, normal) = (rows(scaled), rows(normal));
    let mean = scaled.clone().mean_dim(2);
    let along = (scaled.clone() * normal.clone()).mean_dim(2);
    let reciprocal: Tensor<3> = normalization.deviation_reciprocal.reshape([batch_size, groups, 1]);
    let x = (scaled - mean - normal * along) * reciprocal;
    NormGradients { x: cast_to(x.reshape(dims), dtype), weight, bias }
}

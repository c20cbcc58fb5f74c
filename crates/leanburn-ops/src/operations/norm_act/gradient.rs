//! The gradients of `activation(norm(x))` on every engine.

use burn::tensor::Tensor;
use leanburn_kernels::{Activation, norm};

use super::channel_map::{TensorMap, statistics_of};
use super::composed::{activate_gradient, normalize};
use super::norm::Norm;
use super::normalization::Normalization;
use super::statistics::norm_shape;
use super::sums::{NormActApply, NormActSums};
use crate::cube::{self, FLOPS_OF_SUMS};
use crate::engine::{Computation, CpuTensor, Engine, Stored, to_f32};
use crate::numerics::{cast_to, widen};
use crate::operations::check::positions;
use crate::recording::{Call, Recorder};

/// Floating-point operations for each value, roughly: those of the sums and of the gradient.
const FLOPS_OF_NORM_ACT_GRADIENT: u64 = 2 * FLOPS_OF_SUMS;

/// From the gradient of the normalised and activated volume to those of the volume and of the norm's parameters.
pub(crate) struct NormActGradient {
    pub(crate) x: Tensor<5>,
    pub(crate) normalization: Option<Normalization>,
    pub(crate) activation: Activation,
    /// Written over if nothing else holds it.
    pub(crate) gradient: Tensor<5>,
}

/// Gradients of the volume, and of the norm's scale and shift where it has them.
pub(crate) struct NormGradients {
    pub(crate) x: Tensor<5>,
    pub(crate) weight: Option<Tensor<1>>,
    pub(crate) bias: Option<Tensor<1>>,
}

impl NormGradients {
    fn of_volume(x: Tensor<5>) -> Self {
        Self { x, weight: None, bias: None }
    }
}

impl Computation for NormActGradient {
    type Output = NormGradients;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> NormGradients {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let flops = FLOPS_OF_NORM_ACT_GRADIENT * self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "norm_act_gradient").costs(flops, 0);
        let call = call.takes(self.x).writes_over(self.gradient).gives(dims, dtype);
        let parameters = match self.normalization {
            Some(Normalization { norm: Norm { weight, bias, .. }, .. }) => [weight, bias],
            None => [None, None],
        };
        let dtypes = parameters.map(|parameter| parameter.map(|parameter| parameter.dtype()));
        let call = dtypes.into_iter().flatten().fold(call, |call, dtype| call.gives([dims[1]], dtype));
        let mut outputs = call.record();
        let x = outputs.next_tensor();
        let [weight, bias] = dtypes.map(|dtype| dtype.map(|_| outputs.next_tensor()));
        NormGradients { x, weight, bias }
    }

    fn on_cpu<E: Stored>(self) -> NormGradients {
        let Self { x, normalization, activation, gradient } = self;
        let dims = x.dims();
        let x = CpuTensor::of(x);
        let mut gradient = CpuTensor::of(gradient);
        let Some(normalization) = normalization else {
            if activation != Activation::None {
                norm::act_backward(x.values::<E>(), activation, gradient.values_mut::<E>());
            }
            return NormGradients::of_volume(gradient.into_tensor());
        };
        let norm = &normalization.norm;
        let shape = norm_shape(dims, norm.num_groups);
        let statistics = statistics_of(&normalization);
        let (weight, bias) = (norm.weight.as_ref().map(to_f32), norm.bias.as_ref().map(to_f32));
        let (weight_gradient, bias_gradient) = norm::group_norm_act_backward(
            &shape,
            x.values::<E>(),
            &statistics,
            weight.as_deref(),
            bias.as_deref(),
            activation,
            gradient.values_mut::<E>(),
        );
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

    fn on_cube(self) -> NormGradients {
        let Self { x, normalization, activation, gradient } = self;
        let Some(normalization) = normalization else {
            let TensorMap { scale, shift, mean } = TensorMap::of(&x, None);
            let zero = shift.zeros_like();
            let (centered_scale, offset) = (zero.clone(), zero);
            let maps = cube::GradientMaps { scale, shift, mean, centered_scale, offset };
            return NormGradients::of_volume(cube::run(cube::NormActGradient { x, gradient, maps, activation }));
        };
        let normalization = &normalization;
        let positions = positions(x.dims());
        let sums = NormActSums { x: &x, normalization, activation, gradient: gradient.clone() }.on_cube();
        let [weight, bias] = sums.parameter_gradients(normalization);
        let x = NormActApply { x, normalization, activation, gradient, sums: &sums, positions }.on_cube();
        NormGradients { x, weight, bias }
    }

    fn composed(self) -> NormGradients {
        let Self { x, normalization, activation, gradient } = self;
        let dtype = x.dtype();
        let (x, gradient) = (widen(x), widen(gradient));
        let gradient = activate_gradient(normalize(x.clone(), normalization.as_ref()), activation, gradient);
        let Some(normalization) = normalization else {
            return NormGradients::of_volume(cast_to(gradient, dtype));
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
}

//! Leaky ReLU of a learned slope behind a norm: [`norm_prelu`], and its slope's gradient for the convolution behind it.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::Activation;

use super::forward::norm_act;
use super::gradient::{NormActGradient, NormGradients};
use super::norm::Norm;
use super::normalization::Normalization;
use crate::engine::run;
use crate::numerics::{cast_to, widen};
use crate::operations::check::{assert_dims, assert_not_empty, assert_parameter};
use crate::operations::operation::{AnyTensor, Operation, apply};
use crate::recording::is_recording;

/// `prelu(norm(x))` as one operation: `n = norm(x)` where positive, `slope n` elsewhere.
///
/// Source: [Delving Deep into Rectifiers](https://arxiv.org/abs/1502.01852).
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
/// - slope: `[1]`, for all channels
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer, and mean and deviation of each group. Backward needs one
/// volume for the gradient of the slope.
///
/// # Numerics
///
/// Arithmetic in float32 regardless of the dtype. The slope is read from the device: on a GPU forward waits for it.
///
/// # Panics
///
/// As [`group_norm_act`](crate::group_norm_act), and if the slope has another shape or is float64 where the input is not.
#[must_use]
pub fn norm_prelu(x: Tensor<5>, norm: Option<Norm>, slope: Tensor<1>) -> Tensor<5> {
    const OPERATION: &str = "norm_prelu";
    assert_not_empty(OPERATION, "input", &x);
    norm.iter().for_each(|norm| norm.check(OPERATION, &x));
    check_slope(OPERATION, &slope, x.dtype());
    let (settings, weight, bias) = Norm::apart(norm);
    let inputs = [x.into(), weight.into(), bias.into(), slope.into()];
    apply(inputs, |[x, weight, bias, slope], _| {
        let x = x.given();
        let norm = Norm::together(settings, weight.optional(), bias.optional());
        let normalization = norm.map(|norm| Normalization::of(norm, &x));
        let activation = leaky_relu(slope.given());
        (norm_act(x.clone(), normalization.as_ref(), activation), NormPrelu { x, normalization, activation })
    })
}

/// Panics if this is no slope for the channels of a volume of this dtype.
pub(crate) fn check_slope(operation: &str, slope: &Tensor<1>, dtype: DType) {
    assert_dims(operation, "slope", slope, [("slopes", 1)]);
    assert_parameter(operation, "slope", slope, dtype);
}

/// The function of a slope. On a recording device, where the slope has no value, any.
pub(crate) fn leaky_relu(slope: Tensor<1>) -> Activation {
    match is_recording(&slope.device()) {
        true => Activation::LeakyRelu(0.25),
        false => Activation::LeakyRelu(cast_to(slope, DType::F32).into_scalar::<f32>()),
    }
}

/// The gradient of the slope, `sum(gradient min(n, 0))` with `n = norm(x)`.
///
/// With `n = weight z + bias`, `-n` through a ReLU passes the gradient where `n` is negative: the gradients of the scale and
/// the shift of that norm are `sum(gradient z)` and `sum(gradient)` there.
pub(crate) fn slope_gradient(x: &Tensor<5>, normalization: Option<&Normalization>, gradient: &Tensor<5>) -> Tensor<1> {
    let Some(normalization) = normalization else {
        return (widen(gradient.clone()) * widen(x.clone()).clamp_max(0.0)).sum();
    };
    let channels = x.dims()[1];
    let Norm { weight, bias, .. } = &normalization.norm;
    let ones = || Tensor::ones([channels], (&x.device(), DType::F32));
    let negative = Norm {
        weight: Some(weight.clone().unwrap_or_else(ones).neg()),
        bias: bias.clone().map(Tensor::neg),
        ..normalization.norm.clone()
    };
    let gradients = run(NormActGradient {
        x: x.clone(),
        normalization: Some(Normalization { norm: negative, ..normalization.clone() }),
        activation: Activation::Relu,
        gradient: gradient.clone(),
    });
    let weighted = |gradient: Option<Tensor<1>>, by: &Option<Tensor<1>>| match (gradient, by) {
        (Some(gradient), Some(by)) => Some((gradient * by.clone()).sum()),
        (gradient, None) => gradient.map(Tensor::sum),
        (None, Some(_)) => None,
    };
    let of_scale = weighted(gradients.weight, weight).expect("the norm has a scale");
    match weighted(gradients.bias, bias) {
        Some(of_shift) => of_scale + of_shift,
        None => of_scale,
    }
}

/// What [`norm_prelu`] saves.
#[derive(Clone, Debug)]
struct NormPrelu {
    x: Tensor<5>,
    normalization: Option<Normalization>,
    activation: Activation,
}

impl Operation<4> for NormPrelu {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 4]) -> [AnyTensor; 4] {
        let Self { x, normalization, activation } = self;
        let slope = needed[3].then(|| slope_gradient(&x, normalization.as_ref(), &gradient));
        let NormGradients { x, weight, bias } = run(NormActGradient { x, normalization, activation, gradient });
        [x.into(), weight.into(), bias.into(), slope.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

//! The kernels of norm and activation: sums, forward, gradient.

use burn::tensor::{DType, Device, Tensor};
use leanburn_kernels::Activation;

use super::kernel::Kernel;
use super::launch::launch;
use super::parts::parts_of;
use crate::recording::Call;

/// Floating-point operations for each value, roughly: sums and squares.
pub(crate) const FLOPS_OF_STATISTICS: u64 = 4;

/// Floating-point operations for each value, roughly: a scale, a shift and an exponential.
pub(crate) const FLOPS_OF_NORM_ACT: u64 = 8;

/// Floating-point operations for each value, roughly: a scale, a shift, an exponential, sums and products.
pub(crate) const FLOPS_OF_SUMS: u64 = 10;

/// The mean of some positions of each channel, `[batch_size, channels]`, float32.
pub(crate) struct SampledMean<'a> {
    pub(crate) x: &'a Tensor<5>,
}

impl Kernel for SampledMean<'_> {
    const NAME: &'static str = "sampled_mean";
    type Output = Tensor<2>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<2> {
        let [batch_size, channels, ..] = self.x.dims();
        call.reads(self.x).record_one([batch_size, channels], DType::F32)
    }

    fn launched(self) -> Tensor<2> {
        Tensor::from_dispatch(launch!(sampled_mean(self.x.clone().into_dispatch())))
    }
}

/// The sums of `x - origin`, and of its square, over each channel: each `[batch_size, channels]`, float32, as is `origin`.
pub(crate) struct Moments<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) origin: Tensor<2>,
}

impl Kernel for Moments<'_> {
    const NAME: &'static str = "moments";
    type Output = [Tensor<2>; 2];

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> [Tensor<2>; 2] {
        let call = call.reads(self.x).takes(self.origin).costs(FLOPS_OF_STATISTICS * values(self.x), 0);
        added_up(call.record_all([dims_of_parts(self.x); 2], DType::F32))
    }

    fn launched(self) -> [Tensor<2>; 2] {
        let (sums, squares) = launch!(moments(self.x.clone().into_dispatch(), self.origin.into_dispatch()));
        added_up([sums, squares].map(Tensor::from_dispatch))
    }
}

/// `activation(scale * x + shift)`; scale and shift are `[batch_size, channels]`, float32.
pub(crate) struct NormAct {
    pub(crate) x: Tensor<5>,
    pub(crate) scale: Tensor<2>,
    pub(crate) shift: Tensor<2>,
    pub(crate) activation: Activation,
}

impl Kernel for NormAct {
    const NAME: &'static str = "norm_act";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let call = call.costs(FLOPS_OF_NORM_ACT * values(&self.x), 0);
        call.takes(self.x).takes(self.scale).takes(self.shift).record_one(dims, dtype)
    }

    fn launched(self) -> Tensor<5> {
        let Self { x, scale, shift, activation } = self;
        let [scale, shift] = [scale, shift].map(Tensor::into_dispatch);
        Tensor::from_dispatch(launch!(norm_act(x.into_dispatch(), scale, shift, activation)))
    }
}

/// The sums over each channel of the gradient before the activation, and of it times `x - mean`: each
/// `[batch_size, channels]`, float32, as are scale, shift and mean.
pub(crate) struct NormActSums<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) scale: Tensor<2>,
    pub(crate) shift: Tensor<2>,
    pub(crate) mean: Tensor<2>,
    pub(crate) activation: Activation,
}

impl Kernel for NormActSums<'_> {
    const NAME: &'static str = "norm_act_sums";
    type Output = [Tensor<2>; 2];

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> [Tensor<2>; 2] {
        let call = call.reads(self.x).reads(self.gradient).takes(self.scale).takes(self.shift).takes(self.mean);
        let call = call.costs(FLOPS_OF_SUMS * values(self.x), 0);
        added_up(call.record_all([dims_of_parts(self.x); 2], DType::F32))
    }

    fn launched(self) -> [Tensor<2>; 2] {
        let Self { x, gradient, scale, shift, mean, activation } = self;
        let [x, gradient] = [x, gradient].map(|volume| volume.clone().into_dispatch());
        let [scale, shift, mean] = [scale, shift, mean].map(Tensor::into_dispatch);
        let (sums, products) = launch!(norm_act_sums(x, gradient, scale, shift, mean, activation));
        added_up([sums, products].map(Tensor::from_dispatch))
    }
}

/// `gradient * activation'(scale * x + shift) * scale + centered_scale * (x - mean) + offset`, over the gradient where
/// nobody else holds it.
pub(crate) struct NormActGradient {
    pub(crate) x: Tensor<5>,
    pub(crate) gradient: Tensor<5>,
    pub(crate) maps: GradientMaps,
    pub(crate) activation: Activation,
}

/// The coefficients of [`NormActGradient`], each `[batch_size, channels]`, float32.
pub(crate) struct GradientMaps {
    pub(crate) scale: Tensor<2>,
    pub(crate) shift: Tensor<2>,
    pub(crate) mean: Tensor<2>,
    pub(crate) centered_scale: Tensor<2>,
    pub(crate) offset: Tensor<2>,
}

impl Kernel for NormActGradient {
    const NAME: &'static str = "norm_act_gradient";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let call = call.costs(FLOPS_OF_SUMS * values(&self.x), 0).takes(self.x).writes_over(self.gradient);
        let GradientMaps { scale, shift, mean, centered_scale, offset } = self.maps;
        [scale, shift, mean, centered_scale, offset].into_iter().fold(call, Call::takes).record_one(dims, dtype)
    }

    fn launched(self) -> Tensor<5> {
        let [x, gradient] = [self.x, self.gradient].map(Tensor::into_dispatch);
        let GradientMaps { scale, shift, mean, centered_scale, offset } = self.maps;
        let [scale, shift, mean, centered_scale, offset] =
            [scale, shift, mean, centered_scale, offset].map(Tensor::into_dispatch);
        let activation = self.activation;
        let gradient = launch!(norm_act_gradient(x, gradient, scale, shift, mean, centered_scale, offset, activation));
        Tensor::from_dispatch(gradient)
    }
}

fn values(x: &Tensor<5>) -> u64 {
    x.shape().num_elements() as u64
}

/// Dimensions of the parts of a sum over each channel.
fn dims_of_parts(x: &Tensor<5>) -> [usize; 3] {
    let dims @ [batch_size, channels, ..] = x.dims();
    [batch_size, channels, parts_of(dims)]
}

/// The sums of which these are the parts.
fn added_up(parts: [Tensor<3>; 2]) -> [Tensor<2>; 2] {
    parts.map(|parts| {
        let [batch_size, channels, _] = parts.dims();
        parts.sum_dim(2).reshape([batch_size, channels])
    })
}

//! A transposed convolution and its gradients on every engine.

use burn::tensor::Tensor;

use super::transposed::Transposed;
use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, run, to_f32};
use crate::numerics::cast_to;
use crate::operations::conv3d::{self, Entry};
use crate::recording::{Call, Recorder};

/// `conv_transpose3d(x, weight) + bias`.
pub(crate) struct Forward<'a> {
    pub(crate) transposed: &'a Transposed,
    pub(crate) x: &'a Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
    pub(crate) bias: Option<&'a Tensor<1>>,
}

impl Computation for Forward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let call = Call::new(recorder, "conv_transpose3d");
        self.transposed.recorded(call, self.x, self.weight, float32_bytes(self.weight))
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        self.transposed.forward::<E>(self.x, &to_f32(self.weight), self.bias)
    }

    fn composed(self) -> Tensor<5> {
        let Self { transposed: Transposed(shape), x, weight, bias } = self;
        let y = run(conv3d::DataGradient { gradient: x, weight, shape });
        match bias {
            Some(bias) => y + cast_to(bias.clone(), x.dtype()).reshape([1, shape.input_dims()[1], 1, 1, 1]),
            None => y,
        }
    }
}

/// The gradient of the input.
pub(crate) struct DataGradient<'a> {
    pub(crate) transposed: &'a Transposed,
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
}

impl Computation for DataGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.gradient)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let call = Call::new(recorder, "conv_transpose3d_data_gradient");
        self.transposed.recorded_data_gradient(call, self.gradient, self.weight, float32_bytes(self.weight))
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        self.transposed.data_gradient::<E>(self.gradient, &to_f32(self.weight))
    }

    fn composed(self) -> Tensor<5> {
        let Self { transposed: Transposed(shape), gradient: x, weight } = self;
        run(conv3d::Forward { x, entry: &Entry::plain(), weight, bias: None, residual: None, shape })
    }
}

/// The gradient of the weight, in the weight's shape and dtype.
pub(crate) struct WeightGradient<'a> {
    pub(crate) transposed: &'a Transposed,
    pub(crate) x: &'a Tensor<5>,
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
}

impl Computation for WeightGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let call = Call::new(recorder, "conv_transpose3d_weight_gradient");
        self.transposed.recorded_weight_gradient(call, self.x, self.gradient, self.weight, 0)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let sums = self.transposed.weight_gradient::<E>(self.x, self.gradient);
        cast_to(CpuTensor::from_vec(sums, self.weight.dims()).into_tensor(), self.weight.dtype())
    }

    fn composed(self) -> Tensor<5> {
        let Self { transposed: Transposed(shape), x: gradient, gradient: x, weight } = self;
        run(conv3d::WeightGradient { x, entry: &Entry::plain(), gradient, weight, shape })
    }
}

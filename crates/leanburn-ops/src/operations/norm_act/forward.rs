//! `activation(norm(x))` on every engine.

use burn::tensor::Tensor;
use leanburn_kernels::{Activation, norm};

use super::channel_map::{SliceMap, TensorMap};
use super::composed;
use super::normalization::Normalization;
use super::statistics::norm_shape;
use crate::cube::{self, FLOPS_OF_NORM_ACT};
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::numerics::{cast_to, widen};
use crate::recording::{Call, Recorder};

/// The normalised and activated volume; the volume itself where there is nothing to do.
pub(crate) fn norm_act(x: Tensor<5>, normalization: Option<&Normalization>, activation: Activation) -> Tensor<5> {
    match normalization.is_none() && activation == Activation::None {
        true => x,
        false => run(NormAct { x, normalization, activation }),
    }
}

/// The normalised and activated volume, over the volume if nothing else holds it.
struct NormAct<'a> {
    x: Tensor<5>,
    normalization: Option<&'a Normalization>,
    activation: Activation,
}

impl Computation for NormAct<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let flops = FLOPS_OF_NORM_ACT * self.x.shape().num_elements() as u64;
        Call::new(recorder, "norm_act").costs(flops, 0).writes_over(self.x).record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let dims = self.x.dims();
        let map = SliceMap::of(dims, self.normalization, self.activation).expect("there is something to do");
        let mut x = CpuTensor::of(self.x);
        let shape = norm_shape(dims, 1);
        if x.is_unique() {
            norm::apply_in_place(&shape, x.values_mut::<E>(), map.prologue());
            return x.into_tensor();
        }
        let mut y = CpuTensor::zeros::<E, 5>(dims);
        norm::apply(&shape, x.values::<E>(), map.prologue(), y.values_mut::<E>());
        y.into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        let TensorMap { scale, shift, .. } = TensorMap::of(&self.x, self.normalization);
        cube::run(cube::NormAct { x: self.x, scale, shift, activation: self.activation })
    }

    fn composed(self) -> Tensor<5> {
        let dtype = self.x.dtype();
        let normalized = composed::normalize(widen(self.x), self.normalization);
        cast_to(composed::activate(normalized, self.activation), dtype)
    }
}

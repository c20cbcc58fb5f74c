//! The forward pass of a convolution on every engine.

use burn::tensor::Tensor;
use leanburn_kernels::conv::{self, ConvShape, Input, Output, Residual};

use super::composed;
use super::entry::Entry;
use super::patches::{self, are_patches};
use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, to_f32, with_element};
use crate::recording::{Call, Recorder};

/// `conv3d(entry(x), weight) + bias + residual`, over the residual if nothing else holds it.
pub(crate) struct Forward<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) entry: &'a Entry,
    pub(crate) weight: &'a Tensor<5>,
    pub(crate) bias: Option<&'a Tensor<1>>,
    pub(crate) residual: Option<Tensor<5>>,
    pub(crate) shape: &'a ConvShape,
}

impl Computation for Forward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        match self.entry.is_plain() && are_patches(self.shape, self.x.dtype()) {
            true => Engine::composed_on_cpu(self.x),
            false => Engine::of(self.x),
        }
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let shape = self.shape;
        let workspace =
            float32_bytes(self.weight) + with_element!(self.x.dtype(), E => conv::forward_workspace::<E>(shape));
        let call = Call::new(recorder, "conv3d").reads(self.x).reads(self.weight).costs(shape.flops(), workspace);
        let call = self.residual.into_iter().fold(call, Call::writes_over);
        call.record_one(shape.output_dims(), self.x.dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let shape = self.shape;
        let map = self.entry.slice_map(self.x.dims());
        let x = CpuTensor::of(self.x.clone());
        let (weight, bias) = (to_f32(self.weight), self.bias.map(to_f32));
        let mut residual = self.residual.map(CpuTensor::of);
        let input = Input { values: x.values::<E>(), prologue: map.as_ref().map(|map| map.prologue()) };
        if let Some(values) = residual.as_mut().filter(|residual| residual.is_unique()) {
            let output =
                Output { values: values.values_mut::<E>(), bias: bias.as_deref(), residual: Residual::InPlace };
            conv::forward(shape, input, &weight, output);
            return residual.expect("it is there").into_tensor();
        }
        let residual = residual.as_ref().map(|residual| residual.values::<E>());
        let values = conv::forward_allocating(shape, input, &weight, bias.as_deref(), residual);
        CpuTensor::from_vec(values, shape.output_dims()).into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        let Self { x, entry, weight, bias, residual, shape } = self;
        let y = cube::run(cube::Convolve { x: entry.apply(x.clone()), weight, bias, shape });
        composed::added(y, residual)
    }

    fn composed(self) -> Tensor<5> {
        let Self { x, entry, weight, bias, residual, shape } = self;
        if are_patches(shape, x.dtype()) {
            return patches::forward(entry.apply(x.clone()), weight, bias, residual, shape);
        }
        composed::forward(entry.apply(x.clone()), weight, bias, residual, shape)
    }
}

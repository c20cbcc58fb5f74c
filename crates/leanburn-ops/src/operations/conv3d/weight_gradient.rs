//! The gradient of a convolution's weight on every engine.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::conv::{self, ConvShape, Input};

use super::composed;
use super::entry::Entry;
use super::patches::{self, are_patches};
use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, with_element};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder};

/// The gradient of the weight, in the weight's shape and dtype.
pub(crate) struct WeightGradient<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) entry: &'a Entry,
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
    pub(crate) shape: &'a ConvShape,
}

impl Computation for WeightGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        match self.entry.is_plain() && are_patches(self.shape, self.x.dtype()) {
            true => Engine::composed_on_cpu(self.x),
            false => Engine::of(self.x),
        }
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let shape = self.shape;
        let call = Call::new(recorder, "conv3d_weight_gradient").reads(self.x).reads(self.gradient);
        let call = call.costs(shape.flops(), weight_gradient_workspace(shape, self.x.dtype(), self.weight));
        call.record_one(self.weight.dims(), self.weight.dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let shape = self.shape;
        let map = self.entry.slice_map(self.x.dims());
        let (x, gradient) = (CpuTensor::of(self.x.clone()), CpuTensor::of(self.gradient.clone()));
        let mut sums = vec![0.0; shape.weight_len()];
        let input = Input { values: x.values::<E>(), prologue: map.as_ref().map(|map| map.prologue()) };
        conv::weight_gradient(shape, input, Input::plain(gradient.values::<E>()), &mut sums);
        cast_to(CpuTensor::from_vec(sums, self.weight.dims()).into_tensor(), self.weight.dtype())
    }

    fn on_cube(self) -> Tensor<5> {
        let (x, gradient) = (self.entry.apply(self.x.clone()), self.gradient.clone());
        cast_to(cube::run(cube::ConvolveWeightGradient { x, gradient, shape: self.shape }), self.weight.dtype())
    }

    fn composed(self) -> Tensor<5> {
        let x = self.entry.apply(self.x.clone());
        if are_patches(self.shape, x.dtype()) {
            return cast_to(patches::weight_gradient(x, self.gradient.clone(), self.shape), self.weight.dtype());
        }
        composed::weight_gradient(x, self.gradient.clone(), self.weight, self.shape)
    }
}

/// Bytes of workspace of a weight's gradient on the CPU, for volumes of this dtype. Where the weight is not float32 its gradient
/// is cast, when the kernel is done.
pub(crate) fn weight_gradient_workspace(shape: &ConvShape, volumes: DType, weight: &Tensor<5>) -> usize {
    let workspace = with_element!(volumes, E => conv::weight_gradient_workspace::<E>(shape));
    match weight.dtype() {
        DType::F32 => workspace,
        dtype => float32_bytes(weight) + workspace.saturating_sub(weight.shape().num_elements() * dtype.size()),
    }
}

//! The transpose of a convolution with the kernels of the CPU, and how a recording has it.

use burn::tensor::Tensor;
use leanburn_kernels::conv::{self, ConvShape, Input};

use crate::engine::{CpuTensor, Stored, to_f32, with_element};
use crate::operations::conv3d::{data_gradient_flops, weight_gradient_workspace};
use crate::recording::Call;

/// The transpose of the convolution of this shape, whose output is the input here.
#[derive(Clone, Debug)]
pub(crate) struct Transposed(pub(crate) ConvShape);

impl Transposed {
    /// The transpose of `x`, and the bias.
    pub(crate) fn forward<E: Stored>(&self, x: &Tensor<5>, weight: &[f32], bias: Option<&Tensor<1>>) -> Tensor<5> {
        let x = CpuTensor::of(x.clone());
        let bias = bias.map(to_f32);
        let values = conv::data_gradient_allocating(&self.0, Input::plain(x.values::<E>()), weight, bias.as_deref());
        CpuTensor::from_vec(values, self.0.input_dims()).into_tensor()
    }

    /// [`forward`](Self::forward) as it is written down, with `copies` bytes of weights on top of its workspace.
    pub(crate) fn recorded(&self, call: Call, x: &Tensor<5>, weight: &Tensor<5>, copies: usize) -> Tensor<5> {
        let workspace = copies + with_element!(x.dtype(), E => conv::data_gradient_workspace::<E>(&self.0));
        let call = call.reads(x).reads(weight).costs(data_gradient_flops(&self.0), workspace);
        call.record_one(self.0.input_dims(), x.dtype())
    }

    /// The gradient of the input.
    pub(crate) fn data_gradient<E: Stored>(&self, gradient: &Tensor<5>, weight: &[f32]) -> Tensor<5> {
        let gradient = CpuTensor::of(gradient.clone());
        let values = conv::forward_allocating(&self.0, Input::plain(gradient.values::<E>()), weight, None, None);
        CpuTensor::from_vec(values, self.0.output_dims()).into_tensor()
    }

    /// [`data_gradient`](Self::data_gradient) as it is written down, with `copies` bytes of weights on top of its workspace.
    pub(crate) fn recorded_data_gradient(
        &self,
        call: Call,
        gradient: &Tensor<5>,
        weight: &Tensor<5>,
        copies: usize,
    ) -> Tensor<5> {
        let workspace = copies + with_element!(gradient.dtype(), E => conv::forward_workspace::<E>(&self.0));
        let call = call.reads(gradient).reads(weight).costs(self.0.flops(), workspace);
        call.record_one(self.0.output_dims(), gradient.dtype())
    }

    /// The gradient of the weight.
    pub(crate) fn weight_gradient<E: Stored>(&self, x: &Tensor<5>, gradient: &Tensor<5>) -> Vec<f32> {
        let (x, gradient) = (CpuTensor::of(x.clone()), CpuTensor::of(gradient.clone()));
        let mut sums = vec![0.0; self.0.weight_len()];
        let (large, small) = (Input::plain(gradient.values::<E>()), Input::plain(x.values::<E>()));
        conv::weight_gradient(&self.0, large, small, &mut sums);
        sums
    }

    /// [`weight_gradient`](Self::weight_gradient) as it is written down, with `copies` bytes of weights on top of its
    /// workspace.
    pub(crate) fn recorded_weight_gradient(
        &self,
        call: Call,
        x: &Tensor<5>,
        gradient: &Tensor<5>,
        weight: &Tensor<5>,
        copies: usize,
    ) -> Tensor<5> {
        let workspace = copies + weight_gradient_workspace(&self.0, x.dtype(), weight);
        let call = call.reads(x).reads(gradient).costs(self.0.flops(), workspace);
        call.record_one(weight.dims(), weight.dtype())
    }
}

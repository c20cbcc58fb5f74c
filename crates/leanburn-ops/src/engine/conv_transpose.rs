//! Transposed convolution: the data gradient of a convolution, with its gradients.

use burn::backend::Dispatch;
use burn::backend::ops::ModuleOps;
use burn::tensor::{Tensor, module, ops::ConvOptions, ops::ConvTransposeOptions};
use leanburn_kernels::conv::{self, ConvShape, Input};

use super::conv::{Entry, shape};
use crate::cpu::{CpuTensor, float32_bytes, to_f32, with_element};
use crate::cube;
use crate::numerics::cast_to;
use crate::recording::Call;

/// The dimensions of the output.
pub(crate) fn output_dims(input: [usize; 5], weight: [usize; 5], options: &ConvTransposeOptions<3>) -> [usize; 5] {
    let [batch_size, channels_in, size @ ..] = input;
    let [weight_channels, per_group, kernel @ ..] = weight;
    assert!(
        channels_in == weight_channels && channels_in.is_multiple_of(options.groups),
        "conv_transpose3d: {channels_in} channels in, weight {weight:?} and {} groups do not go together",
        options.groups
    );
    let [depth, height, width] = std::array::from_fn(|axis| {
        let grown = size[axis].saturating_sub(1) * options.stride[axis]
            + options.dilation[axis] * (kernel[axis] - 1)
            + 1
            + options.padding_out[axis];
        let cut = 2 * options.padding[axis];
        assert!(grown > cut, "conv_transpose3d: padding {:?} leaves nothing of axis {axis}", options.padding);
        grown - cut
    });
    [batch_size, per_group * options.groups, depth, height, width]
}

/// The options of the convolution from the output to the input.
fn back(options: &ConvTransposeOptions<3>) -> ConvOptions<3> {
    ConvOptions::new(options.stride, options.padding, options.dilation, options.groups)
}

/// The convolution from the output to the input.
fn convolution(input: [usize; 5], weight: [usize; 5], options: &ConvTransposeOptions<3>) -> ConvShape {
    let shape = shape(output_dims(input, weight, options), weight, &back(options));
    assert!(
        shape.output() == input[2..],
        "conv_transpose3d: padding_out {:?} must be smaller than the stride {:?}",
        options.padding_out,
        options.stride
    );
    shape
}

/// `conv_transpose3d(x, weight) + bias`.
pub(crate) fn forward(
    x: &Tensor<5>,
    weight: &Tensor<5>,
    bias: Option<&Tensor<1>>,
    options: &ConvTransposeOptions<3>,
) -> Tensor<5> {
    let shape = convolution(x.dims(), weight.dims(), options);
    if let Some(call) = Call::on("conv_transpose3d", x) {
        return recorded(call, &shape, x, weight, float32_bytes(weight));
    }
    if cube::holds(x) {
        let dims = output_dims(x.dims(), weight.dims(), options);
        let y = super::conv::data_gradient(x, weight, dims, &back(options));
        return match bias {
            Some(bias) => y + cast_to(bias.clone(), x.dtype()).reshape([1, dims[1], 1, 1, 1]),
            None => y,
        };
    }
    if !CpuTensor::holds(x) {
        let dtype = x.dtype();
        let bias = bias.map(|bias| cast_to(bias.clone(), dtype));
        return module::conv_transpose3d(x.clone(), cast_to(weight.clone(), dtype), bias, options.clone());
    }
    transposed(&shape, x, &to_f32(weight), bias)
}

/// The gradient of the input.
pub(crate) fn data_gradient(
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    input: [usize; 5],
    options: &ConvTransposeOptions<3>,
) -> Tensor<5> {
    let shape = convolution(input, weight.dims(), options);
    if let Some(call) = Call::on("conv_transpose3d_data_gradient", gradient) {
        return recorded_data_gradient(call, &shape, gradient, weight, float32_bytes(weight));
    }
    if cube::holds(gradient) {
        return super::conv::forward(gradient, &Entry::plain(), weight, None, None, &back(options));
    }
    if !CpuTensor::holds(gradient) {
        let weight = cast_to(weight.clone(), gradient.dtype()).into_dispatch();
        let gradient = gradient.clone().into_dispatch();
        return Tensor::from_dispatch(Dispatch::conv_transpose3d_x_backward(weight, gradient, options.clone()));
    }
    transposed_data_gradient(&shape, gradient, &to_f32(weight))
}

/// The gradient of the weight, in the weight's shape and dtype.
pub(crate) fn weight_gradient(
    x: &Tensor<5>,
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    options: &ConvTransposeOptions<3>,
) -> Tensor<5> {
    let shape = convolution(x.dims(), weight.dims(), options);
    if let Some(call) = Call::on("conv_transpose3d_weight_gradient", x) {
        return recorded_weight_gradient(call, &shape, x, gradient, weight, 0);
    }
    if cube::holds(x) {
        return super::conv::weight_gradient(gradient, &Entry::plain(), x, weight, &back(options));
    }
    if !CpuTensor::holds(x) {
        let sums = Tensor::from_dispatch(Dispatch::conv_transpose3d_weight_backward(
            x.clone().into_dispatch(),
            cast_to(weight.clone(), x.dtype()).into_dispatch(),
            gradient.clone().into_dispatch(),
            options.clone(),
        ));
        return cast_to(sums, weight.dtype());
    }
    let sums = transposed_weight_gradient(&shape, x, gradient);
    cast_to(CpuTensor::from_vec(sums, weight.dims()).into_tensor(), weight.dtype())
}

/// On a recording device: [`transposed`], with `copies` bytes of weights beside it.
pub(super) fn recorded(call: Call, shape: &ConvShape, x: &Tensor<5>, weight: &Tensor<5>, copies: usize) -> Tensor<5> {
    let [depth, height, width] = shape.input;
    let workspace = copies + conv::data_gradient_workspace(shape);
    let call = call.reads(x).reads(weight).costs(shape.flops(), workspace);
    call.record_one([shape.batch_size, shape.channels_in, depth, height, width], x.dtype())
}

/// On a recording device: [`transposed_data_gradient`], with `copies` bytes of weights beside it.
pub(super) fn recorded_data_gradient(
    call: Call,
    shape: &ConvShape,
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    copies: usize,
) -> Tensor<5> {
    let workspace = copies + conv::forward_workspace(shape);
    let call = call.reads(gradient).reads(weight).costs(shape.flops(), workspace);
    call.record_one(super::conv::output_dims(shape), gradient.dtype())
}

/// On a recording device: [`transposed_weight_gradient`], with `copies` bytes of weights beside it.
pub(super) fn recorded_weight_gradient(
    call: Call,
    shape: &ConvShape,
    x: &Tensor<5>,
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    copies: usize,
) -> Tensor<5> {
    let workspace = copies + super::conv::weight_gradient_workspace(shape, weight);
    let call = call.reads(x).reads(gradient).costs(shape.flops(), workspace);
    call.record_one(weight.dims(), weight.dtype())
}

/// On the CPU: the transpose of the convolution of `shape`.
pub(super) fn transposed(shape: &ConvShape, x: &Tensor<5>, weight: &[f32], bias: Option<&Tensor<1>>) -> Tensor<5> {
    let x = CpuTensor::of(x.clone());
    let bias = bias.map(to_f32);
    let [depth, height, width] = shape.input;
    let dims = [shape.batch_size, shape.channels_in, depth, height, width];
    with_element!(x.dtype(), E => {
        let values = conv::data_gradient_fresh(shape, Input::plain(x.values::<E>()), weight, bias.as_deref());
        CpuTensor::from_vec(values, dims).into_tensor()
    })
}

/// On the CPU: the gradient of [`transposed`]'s input.
pub(super) fn transposed_data_gradient(shape: &ConvShape, gradient: &Tensor<5>, weight: &[f32]) -> Tensor<5> {
    let gradient = CpuTensor::of(gradient.clone());
    with_element!(gradient.dtype(), E => {
        let values = conv::forward_fresh(shape, Input::plain(gradient.values::<E>()), weight, None, None);
        CpuTensor::from_vec(values, super::conv::output_dims(shape)).into_tensor()
    })
}

/// On the CPU: the gradient of [`transposed`]'s weight.
pub(super) fn transposed_weight_gradient(shape: &ConvShape, x: &Tensor<5>, gradient: &Tensor<5>) -> Vec<f32> {
    let (x, gradient) = (CpuTensor::of(x.clone()), CpuTensor::of(gradient.clone()));
    let mut sums = vec![0.0; shape.weight_len()];
    with_element!(x.dtype(), E => {
        let (wide, narrow) = (Input::plain(gradient.values::<E>()), Input::plain(x.values::<E>()));
        conv::weight_gradient(shape, wide, narrow, &mut sums);
    });
    sums
}

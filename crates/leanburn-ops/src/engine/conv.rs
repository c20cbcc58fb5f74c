//! Convolution of a volume that may be normalised and activated on the way in: forward and gradients.

use burn::backend::Dispatch;
use burn::backend::ops::ModuleOps;
use burn::tensor::{DType, Tensor, module, ops::ConvOptions};
use leanburn_kernels::{
    Activation,
    conv::{self, ConvShape, Input, Output, Residual},
};

use super::conv_gradient;
use super::norm::{self, Normalization};
use crate::cpu::{CpuTensor, float32_bytes, to_f32, with_element};
use crate::cube;
use crate::numerics::cast_to;
use crate::probe;
use crate::recording::Call;

/// What happens to a volume on its way into a convolution.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) normalization: Option<Normalization>,
    pub(crate) activation: Activation,
}

impl Entry {
    /// Nothing happens.
    pub(crate) fn plain() -> Self {
        Self { normalization: None, activation: Activation::None }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.normalization.is_none() && self.activation == Activation::None
    }

    fn apply(&self, x: Tensor<5>) -> Tensor<5> {
        norm::apply(x, self.normalization.as_ref(), self.activation)
    }
}

/// The shape of a convolution for the kernels.
///
/// # Panics
///
/// Panics if channels, groups and kernel do not go together.
pub(crate) fn shape(input: [usize; 5], weight: [usize; 5], options: &ConvOptions<3>) -> ConvShape {
    let [batch_size, channels_in, input @ ..] = input;
    let [channels_out, per_group, kernel @ ..] = weight;
    let groups = options.groups;
    assert!(
        channels_in == per_group * groups && channels_out.is_multiple_of(groups),
        "conv3d: {channels_in} channels in, weight {weight:?} and {groups} groups do not go together"
    );
    let shape = ConvShape {
        batch_size,
        channels_in,
        channels_out,
        groups,
        input,
        kernel,
        stride: options.stride,
        dilation: options.dilation,
        padding: options.padding.map(|(before, after)| [before, after]),
    };
    assert!(
        !shape.output().contains(&0),
        "conv3d: a kernel of {kernel:?}, dilation {:?}, is larger than the volume {input:?} with padding {:?}",
        options.dilation,
        options.padding
    );
    shape
}

/// The dimensions of the output.
pub(crate) fn output_dims(shape: &ConvShape) -> [usize; 5] {
    let [depth, height, width] = shape.output();
    [shape.batch_size, shape.channels_out, depth, height, width]
}

/// `conv3d(entry(x), weight) + bias + residual`.
pub(crate) fn forward(
    x: &Tensor<5>,
    entry: &Entry,
    weight: &Tensor<5>,
    bias: Option<&Tensor<1>>,
    residual: Option<Tensor<5>>,
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let shape = shape(x.dims(), weight.dims(), options);
    if let Some(call) = Call::on("conv3d", x) {
        let workspace = float32_bytes(weight) + conv::forward_workspace(&shape);
        let call = call.reads(x).reads(weight).costs(shape.flops(), workspace);
        let call = residual.into_iter().fold(call, Call::writes_over);
        return call.record_one(output_dims(&shape), x.dtype());
    }
    if !CpuTensor::holds(x) {
        return composed_forward(entry.apply(x.clone()), weight, bias, residual, options, &shape);
    }
    let map = norm::channel_map(x.dims(), entry.normalization.as_ref(), entry.activation);
    let x = CpuTensor::of(x.clone());
    let (weight, bias) = (to_f32(weight), bias.map(to_f32));
    let mut residual = residual.map(CpuTensor::of);
    with_element!(x.dtype(), E => {
        let input = Input { values: x.values::<E>(), prologue: map.as_ref().map(|map| map.prologue()) };
        // Over the residual where nobody else holds it.
        if let Some(values) = residual.as_mut().filter(|residual| residual.is_unique()) {
            let output = Output { values: values.values_mut::<E>(), bias: bias.as_deref(), residual: Residual::InPlace };
            conv::forward(&shape, input, &weight, output);
            return residual.expect("it is there").into_tensor();
        }
        let residual = residual.as_ref().map(|residual| residual.values::<E>());
        let values = conv::forward_fresh(&shape, input, &weight, bias.as_deref(), residual);
        CpuTensor::from_vec(values, output_dims(&shape)).into_tensor()
    })
}

/// The gradient of the convolution's input (behind `entry`) from the gradient of its output.
pub(crate) fn data_gradient(
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    input: [usize; 5],
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let shape = shape(input, weight.dims(), options);
    if let Some(call) = Call::on("conv3d_data_gradient", gradient) {
        let workspace = float32_bytes(weight) + conv::data_gradient_workspace(&shape);
        let call = call.reads(gradient).reads(weight).costs(shape.flops(), workspace);
        return call.record_one(input, gradient.dtype());
    }
    if cube::holds(gradient) {
        return conv_gradient::data_gradient(gradient, weight, input, options);
    }
    if !CpuTensor::holds(gradient) {
        return composed_data_gradient(gradient.clone(), weight, input, options);
    }
    let gradient = CpuTensor::of(gradient.clone());
    let weight = to_f32(weight);
    with_element!(gradient.dtype(), E => {
        let values = conv::data_gradient_fresh(&shape, Input::plain(gradient.values::<E>()), &weight, None);
        CpuTensor::from_vec(values, input).into_tensor()
    })
}

/// The gradient of the weight, in the weight's shape and dtype.
pub(crate) fn weight_gradient(
    x: &Tensor<5>,
    entry: &Entry,
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let shape = shape(x.dims(), weight.dims(), options);
    if let Some(call) = Call::on("conv3d_weight_gradient", x) {
        let call = call.reads(x).reads(gradient);
        let call = call.costs(shape.flops(), weight_gradient_workspace(&shape, weight));
        return call.record_one(weight.dims(), weight.dtype());
    }
    if cube::holds(x) {
        return conv_gradient::weight_gradient(&entry.apply(x.clone()), gradient, weight, options);
    }
    if !CpuTensor::holds(x) {
        return composed_weight_gradient(entry.apply(x.clone()), gradient.clone(), weight, options);
    }
    let map = norm::channel_map(x.dims(), entry.normalization.as_ref(), entry.activation);
    let (x, gradient) = (CpuTensor::of(x.clone()), CpuTensor::of(gradient.clone()));
    let mut sums = vec![0.0; shape.weight_len()];
    with_element!(x.dtype(), E => {
        let input = Input { values: x.values::<E>(), prologue: map.as_ref().map(|map| map.prologue()) };
        conv::weight_gradient(&shape, input, Input::plain(gradient.values::<E>()), &mut sums);
    });
    cast_to(CpuTensor::from_vec(sums, weight.dims()).into_tensor(), weight.dtype())
}

/// Bytes that a weight's gradient takes beside it. Where it is not float32 it is cast, when the kernel is done.
pub(super) fn weight_gradient_workspace(shape: &ConvShape, weight: &Tensor<5>) -> usize {
    let workspace = conv::weight_gradient_workspace(shape);
    match weight.dtype() {
        DType::F32 => workspace,
        dtype => float32_bytes(weight) + workspace.saturating_sub(weight.shape().num_elements() * dtype.size()),
    }
}

/// The gradient of the bias: the sum of each channel.
pub(crate) fn bias_gradient(gradient: &Tensor<5>, dtype: DType) -> Tensor<1> {
    let [batch_size, channels, ..] = gradient.dims();
    if let Some(call) = Call::on("conv3d_bias_gradient", gradient) {
        return call.reads(gradient).costs(gradient.shape().num_elements() as u64, 0).record_one([channels], dtype);
    }
    if cube::holds(gradient) {
        return cast_to(conv_gradient::bias_gradient(gradient), dtype);
    }
    if !CpuTensor::holds(gradient) {
        let rows: Tensor<3> = gradient.clone().reshape([batch_size as i64, channels as i64, -1]);
        return cast_to(rows.sum_dim(2).sum_dim(0).reshape([channels]), dtype);
    }
    let gradient = CpuTensor::of(gradient.clone());
    let mut sums = vec![0.0; channels];
    with_element!(gradient.dtype(), E => {
        conv::bias_gradient(batch_size, channels, gradient.values::<E>(), &mut sums)
    });
    cast_to(CpuTensor::from_vec(sums, [channels]).into_tensor(), dtype)
}

/// Burn's convolution pads both ends alike. The same sums come from padding both ends with as many zeros as the larger
/// needs, and leaving out the outputs that see too many at the front (and whatever is left over at the back).
struct Symmetric {
    options: ConvOptions<3>,
    /// Outputs to leave out at the front of each axis.
    front: [usize; 3],
}

impl Symmetric {
    fn of(options: &ConvOptions<3>) -> Self {
        let front = std::array::from_fn(|axis| {
            let (before, after) = options.padding[axis];
            after.saturating_sub(before).div_ceil(options.stride[axis])
        });
        let padding = std::array::from_fn(|axis| options.padding[axis].0 + front[axis] * options.stride[axis]);
        let options = ConvOptions::new(options.stride, padding, options.dilation, options.groups);
        Self { options, front }
    }

    /// Outputs that Burn computes.
    fn computed(&self, input: [usize; 5], weight: [usize; 5]) -> [usize; 3] {
        shape(input, weight, &self.options).output()
    }

    /// Leaves out what is too much.
    fn narrow(&self, y: Tensor<5>, wanted: [usize; 3]) -> Tensor<5> {
        (0..3).fold(y, |y, axis| match (self.front[axis], y.dims()[axis + 2]) {
            (0, computed) if computed == wanted[axis] => y,
            (front, _) => y.narrow(axis + 2, front, wanted[axis]),
        })
    }

    /// The gradient of all computed outputs: zero where they were left out.
    fn widen(&self, gradient: Tensor<5>, computed: [usize; 3]) -> Tensor<5> {
        let dims = gradient.dims();
        let after: [usize; 3] = std::array::from_fn(|axis| computed[axis] - self.front[axis] - dims[axis + 2]);
        if self.front == [0; 3] && after == [0; 3] {
            return gradient;
        }
        let pad: Vec<(usize, usize)> = (0..3).map(|axis| (self.front[axis], after[axis])).collect();
        gradient.pad([(0, 0), (0, 0), pad[0], pad[1], pad[2]], 0.0f32)
    }
}

pub(super) fn composed_forward(
    x: Tensor<5>,
    weight: &Tensor<5>,
    bias: Option<&Tensor<1>>,
    residual: Option<Tensor<5>>,
    options: &ConvOptions<3>,
    shape: &ConvShape,
) -> Tensor<5> {
    let dtype = x.dtype();
    let symmetric = Symmetric::of(options);
    let weight = cast_to(weight.clone(), dtype);
    let bias = bias.map(|bias| cast_to(bias.clone(), dtype));
    let y = cube::in_order(module::conv3d(x, weight, bias, symmetric.options.clone()));
    probe::look();
    let y = symmetric.narrow(y, shape.output());
    match residual {
        Some(residual) => y + residual,
        None => y,
    }
}

pub(super) fn composed_data_gradient(
    gradient: Tensor<5>,
    weight: &Tensor<5>,
    input: [usize; 5],
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let dtype = gradient.dtype();
    let symmetric = Symmetric::of(options);
    // Only its shape is looked at.
    let like = Tensor::<5>::zeros([1; 5], (&gradient.device(), dtype)).expand(input);
    let gradient = symmetric.widen(gradient, symmetric.computed(input, weight.dims()));
    let gradient = Tensor::from_dispatch(Dispatch::conv3d_x_backward(
        like.into_dispatch(),
        cast_to(weight.clone(), dtype).into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options,
    ));
    probe::look();
    cube::in_order(gradient)
}

pub(super) fn composed_weight_gradient(
    x: Tensor<5>,
    gradient: Tensor<5>,
    weight: &Tensor<5>,
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let symmetric = Symmetric::of(options);
    let gradient = symmetric.widen(gradient, symmetric.computed(x.dims(), weight.dims()));
    let like = cast_to(weight.clone(), x.dtype());
    let sums = Tensor::from_dispatch(Dispatch::conv3d_weight_backward(
        x.into_dispatch(),
        like.into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options,
    ));
    probe::look();
    cast_to(cube::in_order(sums), weight.dtype())
}

//! Group normalisation and activation: forward, and the sums and maps of backward.
//!
//! Everything is seen by channel of an item, `[batch_size, channels]`: a normalised volume is `scale * x + shift` there,
//! and a group's sums are sums over its channels.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::Activation;

use super::activation::{Function, activate, derivative, function};
use super::channel::{row_of, share_of_unit};
use super::volume::{Volume, address_type, dims, element, elementwise, small};
use crate::cube::parts::parts_of;

/// `activation(scale * x + shift)`.
#[cube(launch, address_type = "dynamic")]
fn scale_and_activate<E: Float>(
    x: &Tensor<E>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    y: &mut Tensor<E>,
    positions: usize,
    channels: usize,
    slope: f32,
    #[comptime] function: Function,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    let place = ABSOLUTE_POS;
    if place >= positions * channels * x.shape(0) {
        terminate!();
    }
    let row = row_of(place, positions, channels, channels_last);
    let value = f32::cast_from(x[place]) * scale[row] + shift[row];
    y[place] = E::cast_from(activate(value, slope, function));
}

/// `activation(scale * x + shift)`, with a scale and a shift for each channel of each item.
pub(super) fn norm_act(x: CubeTensor, scale: CubeTensor, shift: CubeTensor, activation: Activation) -> CubeTensor {
    let x = Volume::of(x);
    let dims @ [_, channels, depth, height, width] = x.dims();
    let y = x.empty_like(dims);
    let (function, slope) = function(activation);
    let (cubes, units) = elementwise(&y);
    scale_and_activate::launch(
        &y.client,
        cubes,
        units,
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        scale.into_tensor_arg(),
        shift.into_tensor_arg(),
        y.clone().into_tensor_arg(),
        depth * height * width,
        channels,
        slope,
        function,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    y
}

/// The parts of the sums of the gradient before the activation, and of it times `x - mean`, over each channel.
#[cube(launch, address_type = "dynamic")]
fn parts_of_gradients<E: Float>(
    x: &Tensor<E>,
    gradient: &Tensor<E>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    mean: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    products: &mut Tensor<f32>,
    positions: usize,
    channels: usize,
    parts: usize,
    slope: f32,
    #[comptime] function: Function,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= sums.len() {
        terminate!();
    }
    let share = share_of_unit(positions, channels, parts, channels_last);
    let scale = scale[share.row];
    let shift = shift[share.row];
    let mean = mean[share.row];
    let mut sum = 0.0f32;
    let mut product = 0.0f32;
    let mut position = share.part;
    while position < positions {
        let place = share.first + position * share.step;
        let value = f32::cast_from(x[place]);
        let before = f32::cast_from(gradient[place]) * derivative(value * scale + shift, slope, function);
        sum += before;
        product += before * (value - mean);
        position += parts;
    }
    sums[share.row * parts + share.part] = sum;
    products[share.row * parts + share.part] = product;
}

/// The parts of what the gradient before the activation sums up to, and of its products with `x - mean`: each
/// `[batch_size, channels, parts]`.
///
/// `maps` are scale, shift and mean of each channel of each item.
///
/// # Memory
///
/// A copy of the gradient where it lies otherwise than `x`.
pub(super) fn norm_act_sums(
    x: CubeTensor,
    gradient: CubeTensor,
    maps: [CubeTensor; 3],
    activation: Activation,
) -> [CubeTensor; 2] {
    let x = Volume::of(x);
    let gradient = Volume::in_layout(gradient, x.layout);
    let dims @ [batch_size, channels, depth, height, width] = x.dims();
    let (parts, (function, slope)) = (parts_of(dims), function(activation));
    let outputs = [(); 2].map(|()| small(&x.tensor, &[batch_size, channels, parts], DType::F32));
    let (cubes, units) = elementwise(&outputs[0]);
    let [scale, shift, mean] = maps.map(CubeTensor::into_tensor_arg);
    let [sums, products] = outputs.clone().map(CubeTensor::into_tensor_arg);
    parts_of_gradients::launch(
        &x.tensor.client,
        cubes,
        units,
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        gradient.into_tensor_arg(),
        scale,
        shift,
        mean,
        sums,
        products,
        depth * height * width,
        channels,
        parts,
        slope,
        function,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    outputs
}

/// `gradient * activation'(scale * x + shift) * scale + centered_scale * (x - mean) + offset`, over the gradient.
#[cube(launch, address_type = "dynamic")]
fn gradient_of_volume<E: Float>(
    x: &Tensor<E>,
    gradient: &mut Tensor<E>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    mean: &Tensor<f32>,
    centered_scale: &Tensor<f32>,
    offset: &Tensor<f32>,
    positions: usize,
    channels: usize,
    slope: f32,
    #[comptime] function: Function,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    let place = ABSOLUTE_POS;
    if place >= positions * channels * x.shape(0) {
        terminate!();
    }
    let row = row_of(place, positions, channels, channels_last);
    let value = f32::cast_from(x[place]);
    let scale = scale[row];
    let before = f32::cast_from(gradient[place]) * derivative(value * scale + shift[row], slope, function);
    let result = before * scale + centered_scale[row] * (value - mean[row]) + offset[row];
    gradient[place] = E::cast_from(result);
}

/// The gradient of the volume; `maps` are scale, shift, mean, centered_scale and offset of each channel of each item.
///
/// # Memory
///
/// Over the gradient if nothing else holds it; a copy of it where it lies otherwise than `x`.
pub(super) fn norm_act_gradient(
    x: CubeTensor,
    gradient: CubeTensor,
    maps: [CubeTensor; 5],
    activation: Activation,
) -> CubeTensor {
    let x = Volume::of(x);
    let gradient = Volume::in_layout(gradient, x.layout);
    let gradient = if gradient.can_mut() { gradient } else { gradient.copy() };
    let gradient = Volume::in_layout(gradient, x.layout);
    let [_, channels, depth, height, width] = dims(&gradient);
    let (function, slope) = function(activation);
    let (cubes, units) = elementwise(&gradient);
    let [scale, shift, mean, centered_scale, offset] = maps.map(CubeTensor::into_tensor_arg);
    gradient_of_volume::launch(
        &gradient.client,
        cubes,
        units,
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        gradient.clone().into_tensor_arg(),
        scale,
        shift,
        mean,
        centered_scale,
        offset,
        depth * height * width,
        channels,
        slope,
        function,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    gradient
}

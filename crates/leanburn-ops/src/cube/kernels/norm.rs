//! Group normalisation and activation: sums, forward, backward.
//!
//! Everything is seen by channel of an item, `[batch_size, channels]`: a normalised volume is `scale * x + shift` there,
//! and a group's sums are sums over its channels. A sum over the positions of a channel is shared out among units, each of
//! which gives its part; Burn adds the parts up. (A tree in the memory that units share would be shorter by a launch, but
//! not every driver indexes that memory as CubeCL does.)

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::Activation;

use super::super::parts_of;
use super::volume::{Volume, address_type, dims, element, elementwise, small};

/// Positions of a channel that stand for all of them where a rough mean will do.
const SAMPLES: usize = 256;

/// An activation as kernels are told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Identity,
    Silu,
    /// Both ReLUs: the slope is a value.
    Leaky,
}

fn function(activation: Activation) -> (Function, f32) {
    match activation {
        Activation::None => (Function::Identity, 1.0),
        Activation::Silu => (Function::Silu, 0.0),
        Activation::Relu => (Function::Leaky, 0.0),
        Activation::LeakyRelu(slope) => (Function::Leaky, slope),
    }
}

#[cube]
fn activate(x: f32, slope: f32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Identity => x,
        Function::Silu => x / (1.0 + f32::exp(-x)),
        Function::Leaky => select(x > 0.0, x, x * slope),
    }
}

#[cube]
fn derivative(x: f32, slope: f32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Identity => 1.0f32.runtime(),
        Function::Silu => {
            let sigmoid = 1.0 / (1.0 + f32::exp(-x));
            sigmoid + x * sigmoid * (1.0 - sigmoid)
        }
        Function::Leaky => select(x > 0.0, 1.0, slope),
    }
}

/// Channel of an item, `item * channels + channel`, of the value at a place in memory.
#[cube]
fn row_of(place: usize, positions: usize, channels: usize, #[comptime] channels_last: bool) -> usize {
    if comptime!(channels_last) {
        place / (positions * channels) * channels + place % channels
    } else {
        place / positions
    }
}

/// The positions of one channel that a unit adds up: one in `parts`.
#[derive(CubeType, Clone, Copy)]
struct Share {
    row: usize,
    part: usize,
    /// Place in memory of the channel's first value.
    first: usize,
    /// Places from one position to the next.
    step: usize,
}

/// The share of a unit. Units side by side read values side by side.
#[cube]
fn share_of_unit(positions: usize, channels: usize, parts: usize, #[comptime] channels_last: bool) -> Share {
    if comptime!(channels_last) {
        let channel = ABSOLUTE_POS % channels;
        let item = ABSOLUTE_POS / channels / parts;
        Share {
            row: item * channels + channel,
            part: ABSOLUTE_POS / channels % parts,
            first: item * positions * channels + channel,
            step: channels,
        }
    } else {
        let row = ABSOLUTE_POS / parts;
        Share { row, part: ABSOLUTE_POS % parts, first: row * positions, step: 1usize.runtime() }
    }
}

/// The mean of some positions of each channel.
#[cube(launch, address_type = "dynamic")]
fn mean_of_samples<E: Float>(
    x: &Tensor<E>,
    mean: &mut Tensor<f32>,
    positions: usize,
    channels: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= mean.len() {
        terminate!();
    }
    let share = share_of_unit(positions, channels, 1, channels_last);
    let count = usize::min(positions, SAMPLES);
    let apart = positions / count;
    let mut sum = 0.0f32;
    for sample in 0..count {
        sum += f32::cast_from(x[share.first + sample * apart * share.step]);
    }
    mean[share.row] = sum / f32::cast_from(count);
}

/// The mean of some positions of each channel of each item, `[batch_size, channels]`.
pub(super) fn sampled_mean(x: CubeTensor) -> CubeTensor {
    let x = Volume::of(x);
    let [batch_size, channels, depth, height, width] = x.dims();
    let mean = small(&x.tensor, &[batch_size, channels], DType::F32);
    let (cubes, units) = elementwise(&mean);
    mean_of_samples::launch(
        &mean.client,
        cubes,
        units,
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        depth * height * width,
        channels,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    mean
}

/// The parts of the sums of `x - origin`, and of its square, over each channel.
#[cube(launch, address_type = "dynamic")]
fn parts_of_moments<E: Float>(
    x: &Tensor<E>,
    origin: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    squares: &mut Tensor<f32>,
    positions: usize,
    channels: usize,
    parts: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= sums.len() {
        terminate!();
    }
    let share = share_of_unit(positions, channels, parts, channels_last);
    let origin = origin[share.row];
    let mut sum = 0.0f32;
    let mut square = 0.0f32;
    let mut position = share.part;
    while position < positions {
        let difference = f32::cast_from(x[share.first + position * share.step]) - origin;
        sum += difference;
        square += difference * difference;
        position += parts;
    }
    sums[share.row * parts + share.part] = sum;
    squares[share.row * parts + share.part] = square;
}

/// The parts of the sums of `x - origin`, and of its square, over each channel of each item: each
/// `[batch_size, channels, parts]`; `origin` is `[batch_size, channels]`.
pub(super) fn moments(x: CubeTensor, origin: CubeTensor) -> [CubeTensor; 2] {
    let x = Volume::of(x);
    let dims @ [batch_size, channels, depth, height, width] = x.dims();
    let parts = parts_of(dims);
    let outputs = [(); 2].map(|()| small(&x.tensor, &[batch_size, channels, parts], DType::F32));
    let (cubes, units) = elementwise(&outputs[0]);
    let [sums, squares] = outputs.clone().map(CubeTensor::into_tensor_arg);
    parts_of_moments::launch(
        &x.tensor.client,
        cubes,
        units,
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        origin.into_tensor_arg(),
        sums,
        squares,
        depth * height * width,
        channels,
        parts,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    outputs
}

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

/// `gradient * activation'(scale * x + shift) * scale + slant * (x - mean) + offset`, over the gradient.
#[cube(launch, address_type = "dynamic")]
fn gradient_of_volume<E: Float>(
    x: &Tensor<E>,
    gradient: &mut Tensor<E>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    mean: &Tensor<f32>,
    slant: &Tensor<f32>,
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
    let result = before * scale + slant[row] * (value - mean[row]) + offset[row];
    gradient[place] = E::cast_from(result);
}

/// The gradient of the volume; `maps` are scale, shift, mean, slant and offset of each channel of each item.
///
/// # Memory
///
/// Over the gradient where nobody else holds it; a copy of it where it lies otherwise than `x`.
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
    let [scale, shift, mean, slant, offset] = maps.map(CubeTensor::into_tensor_arg);
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
        slant,
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

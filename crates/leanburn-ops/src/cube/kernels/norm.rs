//! Group normalisation and activation: statistics, forward, backward.
//!
//! Everything is seen by channel of an item, `[batch_size, channels]`: a normalised volume is `scale * x + shift` there,
//! and a group's sums are sums over its channels. A cube takes a run of positions of some channels that lie side by
//! side; a second, small kernel adds the runs up.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::Activation;

use super::volume::{UNITS, Volume, address_type, dims, element, elementwise, small};

/// Positions that a unit takes at least.
const POSITIONS_OF_A_UNIT: usize = 16;
/// Runs that the positions of a channel are cut into at most.
const MOST_RUNS: usize = 64;
/// Channels side by side that a cube takes where they lie side by side.
const LANES: usize = 32;

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

/// How the sums over the positions of each channel are shared out.
#[derive(Clone, Copy, Debug)]
struct Runs {
    /// Channels that a cube takes.
    lanes: usize,
    /// Positions of a run.
    length: usize,
    count: usize,
}

impl Runs {
    fn of(volume: &Volume) -> Self {
        let [_, channels, depth, height, width] = volume.dims();
        let positions = depth * height * width;
        let lanes = if volume.is_channels_last() { channels.next_power_of_two().min(LANES) } else { 1 };
        let least = UNITS / lanes * POSITIONS_OF_A_UNIT;
        let length = positions.div_ceil(positions.div_ceil(least).clamp(1, MOST_RUNS));
        Self { lanes, length, count: positions.div_ceil(length) }
    }

    fn cubes(&self, [batch_size, channels, ..]: [usize; 5]) -> CubeCount {
        CubeCount::Static(self.count as u32, channels.div_ceil(self.lanes) as u32, batch_size as u32)
    }
}

/// The positions of one channel that a unit adds up.
#[derive(CubeType, Clone, Copy)]
struct Share {
    /// Whether there is such a channel.
    is_there: bool,
    /// Place in memory of the channel's first value.
    first: usize,
    /// Places from one position to the next.
    step: usize,
    start: usize,
    end: usize,
    row: usize,
}

#[cube]
fn share_of_unit(
    positions: usize,
    channels: usize,
    length: usize,
    #[comptime] lanes: usize,
    #[comptime] channels_last: bool,
) -> Share {
    let unit = UNIT_POS as usize;
    let channel = CUBE_POS_Y as usize * lanes + unit % lanes;
    let item = CUBE_POS_Z as usize;
    let row = item * channels + channel;
    let run = CUBE_POS_X as usize * length;
    let first = if comptime!(channels_last) { item * positions * channels + channel } else { row * positions };
    let step = if comptime!(channels_last) { channels } else { 1usize.runtime() };
    Share {
        is_there: channel < channels,
        first,
        step,
        start: run + unit / lanes,
        end: usize::min(run + length, positions),
        row,
    }
}

/// Count, mean, and sum of squared differences from the mean, of each run of each channel:
/// `[batch_size * channels, runs]`.
#[cube(launch, address_type = "dynamic")]
fn moments_of_runs<E: Float>(
    x: &Tensor<E>,
    means: &mut Tensor<f32>,
    squares: &mut Tensor<f32>,
    positions: usize,
    channels: usize,
    length: usize,
    #[comptime] lanes: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    let share = share_of_unit(positions, channels, length, lanes, channels_last);
    let parts = comptime!(UNITS / lanes);
    let unit = UNIT_POS as usize;
    let mut count = Shared::<[f32]>::new_slice(UNITS);
    let mut mean = Shared::<[f32]>::new_slice(UNITS);
    let mut square = Shared::<[f32]>::new_slice(UNITS);

    // Differences from a value of the channel's own: their squares do not cancel where the mean is large.
    let mut number = 0.0f32;
    let mut origin = 0.0f32;
    let mut sum = 0.0f32;
    let mut sum_of_squares = 0.0f32;
    if share.is_there {
        let mut position = share.start;
        if position < share.end {
            origin = f32::cast_from(x[share.first + position * share.step]);
        }
        while position < share.end {
            let difference = f32::cast_from(x[share.first + position * share.step]) - origin;
            sum += difference;
            sum_of_squares += difference * difference;
            number += 1.0;
            position += parts;
        }
    }
    let own = f32::max(number, 1.0);
    count[unit] = number;
    mean[unit] = origin + sum / own;
    square[unit] = sum_of_squares - sum * sum / own;

    let mut half = comptime!(parts / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half * lanes {
            let other = unit + half * lanes;
            let (a, b) = (count[unit], count[other]);
            let total = f32::max(a + b, 1.0);
            let difference = mean[other] - mean[unit];
            square[unit] += square[other] + difference * difference * a * b / total;
            mean[unit] += difference * b / total;
            count[unit] = a + b;
        }
        half /= 2;
    }
    if unit < lanes && share.is_there {
        let place = share.row * CUBE_COUNT_X as usize + CUBE_POS_X as usize;
        means[place] = mean[unit];
        squares[place] = square[unit];
    }
}

/// Mean and reciprocal of the standard deviation of each group, from the moments of its runs.
#[cube(launch)]
fn moments_of_groups(
    run_means: &Tensor<f32>,
    run_squares: &Tensor<f32>,
    mean: &mut Tensor<f32>,
    reciprocal: &mut Tensor<f32>,
    positions: usize,
    length: usize,
    runs: usize,
    channels: usize,
    epsilon: f32,
) {
    let group = ABSOLUTE_POS;
    if group >= mean.len() {
        terminate!();
    }
    let mut count = 0.0f32;
    let mut average = 0.0f32;
    let mut square = 0.0f32;
    for index in 0..channels * runs {
        let run = index % runs;
        let number = f32::cast_from(usize::min(length, positions - run * length));
        let place = group * channels * runs + index;
        let total = count + number;
        let difference = run_means[place] - average;
        square += run_squares[place] + difference * difference * count * number / total;
        average += difference * number / total;
        count = total;
    }
    mean[group] = average;
    reciprocal[group] = 1.0 / f32::sqrt(f32::max(square / count, 0.0) + epsilon);
}

/// Mean and reciprocal of the standard deviation, each `[batch_size, num_groups]` in float32.
///
/// # Memory
///
/// Eight bytes for each run of each channel, 64 runs at most.
pub(super) fn group_statistics(x: CubeTensor, num_groups: usize, epsilon: f32) -> [CubeTensor; 2] {
    let x = Volume::of(x);
    let runs = Runs::of(&x);
    let dims @ [batch_size, channels, depth, height, width] = x.dims();
    let (positions, client) = (depth * height * width, x.tensor.client.clone());
    let of_runs = || small(&x.tensor, &[batch_size * channels, runs.count], DType::F32);
    let of_groups = || small(&x.tensor, &[batch_size, num_groups], DType::F32);
    let [means, squares] = [of_runs(), of_runs()];
    let [mean, reciprocal] = [of_groups(), of_groups()];
    moments_of_runs::launch(
        &client,
        runs.cubes(dims),
        CubeDim::new_1d(UNITS as u32),
        address_type(&[&x.tensor]),
        x.tensor.clone().into_tensor_arg(),
        means.clone().into_tensor_arg(),
        squares.clone().into_tensor_arg(),
        positions,
        channels,
        runs.length,
        runs.lanes,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    let (cubes, units) = elementwise(&mean);
    moments_of_groups::launch(
        &client,
        cubes,
        units,
        means.into_tensor_arg(),
        squares.into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        reciprocal.clone().into_tensor_arg(),
        positions,
        runs.length,
        runs.count,
        channels / num_groups,
        epsilon,
    );
    [mean, reciprocal]
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

/// Of each run of each channel: the sum of the gradients before the activation, and of these times `x - mean`.
#[cube(launch, address_type = "dynamic")]
fn sums_of_runs<E: Float>(
    x: &Tensor<E>,
    gradient: &Tensor<E>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    mean: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    products: &mut Tensor<f32>,
    positions: usize,
    channels: usize,
    length: usize,
    slope: f32,
    #[comptime] function: Function,
    #[comptime] lanes: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    let share = share_of_unit(positions, channels, length, lanes, channels_last);
    let parts = comptime!(UNITS / lanes);
    let unit = UNIT_POS as usize;
    let mut sum = Shared::<[f32]>::new_slice(UNITS);
    let mut product = Shared::<[f32]>::new_slice(UNITS);

    let mut own_sum = 0.0f32;
    let mut own_product = 0.0f32;
    if share.is_there {
        let (scale, shift, mean) = (scale[share.row], shift[share.row], mean[share.row]);
        let mut position = share.start;
        while position < share.end {
            let place = share.first + position * share.step;
            let value = f32::cast_from(x[place]);
            let before = f32::cast_from(gradient[place]) * derivative(value * scale + shift, slope, function);
            own_sum += before;
            own_product += before * (value - mean);
            position += parts;
        }
    }
    sum[unit] = own_sum;
    product[unit] = own_product;

    let mut half = comptime!(parts / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half * lanes {
            let other = unit + half * lanes;
            sum[unit] += sum[other];
            product[unit] += product[other];
        }
        half /= 2;
    }
    if unit < lanes && share.is_there {
        let place = share.row * CUBE_COUNT_X as usize + CUBE_POS_X as usize;
        sums[place] = sum[unit];
        products[place] = product[unit];
    }
}

/// The sum of each row of `[rows, runs]`.
#[cube(launch)]
fn sums_of_rows(x: &Tensor<f32>, sums: &mut Tensor<f32>, runs: usize) {
    let row = ABSOLUTE_POS;
    if row >= sums.len() {
        terminate!();
    }
    let mut sum = 0.0f32;
    for run in 0..runs {
        sum += x[row * runs + run];
    }
    sums[row] = sum;
}

/// What the gradient before the activation sums up to, and its products with `x - mean`: each `[batch_size, channels]`.
///
/// `maps` are scale, shift and mean of each channel of each item.
///
/// # Memory
///
/// Eight bytes for each run of each channel, 64 runs at most; a copy of the gradient where it lies otherwise than `x`.
pub(super) fn norm_act_sums(
    x: CubeTensor,
    gradient: CubeTensor,
    maps: [CubeTensor; 3],
    activation: Activation,
) -> [CubeTensor; 2] {
    let x = Volume::of(x);
    let gradient = Volume::in_layout(gradient, x.layout);
    let runs = Runs::of(&x);
    let dims @ [batch_size, channels, depth, height, width] = x.dims();
    let (function, slope) = function(activation);
    let of_runs = || small(&x.tensor, &[batch_size * channels, runs.count], DType::F32);
    let parts = [of_runs(), of_runs()];
    let [scale, shift, mean] = maps.map(CubeTensor::into_tensor_arg);
    let [sums, products] = parts.clone().map(CubeTensor::into_tensor_arg);
    sums_of_runs::launch(
        &x.tensor.client,
        runs.cubes(dims),
        CubeDim::new_1d(UNITS as u32),
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
        runs.length,
        slope,
        function,
        runs.lanes,
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    parts.map(|part| {
        let sums = small(&part, &[batch_size, channels], DType::F32);
        let (cubes, units) = elementwise(&sums);
        let output = sums.clone().into_tensor_arg();
        sums_of_rows::launch(&part.client.clone(), cubes, units, part.into_tensor_arg(), output, runs.count);
        sums
    })
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

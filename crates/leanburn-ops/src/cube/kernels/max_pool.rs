//! Max pooling, and its gradient without the places of the maxima.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::place::{Place, Size, index_of, place_of, size};
use super::volume::{Volume, address_type, element, elementwise};

/// The index in memory of the first maximum of the window at an output.
#[cube]
fn first_maximum<E: Float>(
    x: &Tensor<E>,
    runs: &Tensor<i32>,
    inputs: &Tensor<i32>,
    output: &Place,
    from: &Size,
    to: &Size,
    #[comptime] channels_last: bool,
) -> usize {
    let (plane, row, column) = (output.depth, to.depth + output.height, to.depth + to.height + output.width);
    let mut best = 0usize;
    let mut largest = 0.0f32;
    let mut is_first = true;
    for in_depth in 0..runs[2 * plane + 1] {
        let depth = inputs[(runs[2 * plane] + in_depth) as usize] as usize;
        for in_height in 0..runs[2 * row + 1] {
            let height = inputs[(runs[2 * row] + in_height) as usize] as usize;
            for in_width in 0..runs[2 * column + 1] {
                let width = inputs[(runs[2 * column] + in_width) as usize] as usize;
                let index = index_of(output, depth, height, width, from, channels_last);
                let value = f32::cast_from(x[index]);
                if is_first || value > largest {
                    best = index;
                    largest = value;
                    is_first = false;
                }
            }
        }
    }
    best
}

#[cube(launch, address_type = "dynamic")]
fn maxima<E: Float>(
    x: &Tensor<E>,
    runs: &Tensor<i32>,
    inputs: &Tensor<i32>,
    y: &mut Tensor<E>,
    from: Size,
    to: Size,
    count: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let output = place_of(ABSOLUTE_POS, &to, channels_last);
    y[ABSOLUTE_POS] = x[first_maximum::<E>(x, runs, inputs, &output, &from, &to, channels_last)];
}

/// Each input asks the windows that it is in whether it is their first maximum.
#[cube(launch, address_type = "dynamic")]
fn gradients_of_maxima<E: Float>(
    x: &Tensor<E>,
    runs: &Tensor<i32>,
    inputs: &Tensor<i32>,
    runs_back: &Tensor<i32>,
    outputs: &Tensor<i32>,
    gradient: &Tensor<E>,
    x_gradient: &mut Tensor<E>,
    from: Size,
    to: Size,
    count: usize,
    #[comptime] channels_last: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let input = place_of(ABSOLUTE_POS, &from, channels_last);
    let (plane, row, column) = (input.depth, from.depth + input.height, from.depth + from.height + input.width);
    let mut sum = 0.0f32;
    for in_depth in 0..runs_back[2 * plane + 1] {
        let depth = outputs[(runs_back[2 * plane] + in_depth) as usize] as usize;
        for in_height in 0..runs_back[2 * row + 1] {
            let height = outputs[(runs_back[2 * row] + in_height) as usize] as usize;
            for in_width in 0..runs_back[2 * column + 1] {
                let width = outputs[(runs_back[2 * column] + in_width) as usize] as usize;
                let output = Place { item: input.item, channel: input.channel, depth, height, width };
                if first_maximum::<E>(x, runs, inputs, &output, &from, &to, channels_last) == ABSOLUTE_POS {
                    let index = index_of(&output, depth, height, width, &to, channels_last);
                    sum += f32::cast_from(gradient[index]);
                }
            }
        }
    }
    x_gradient[ABSOLUTE_POS] = E::cast_from(sum);
}

/// The largest value of each window; `windows` are the runs and inputs of each output along each axis.
pub(super) fn max_pool(x: CubeTensor, windows: [CubeTensor; 2], dims: [usize; 5]) -> CubeTensor {
    let x = Volume::of(x);
    let y = x.empty_like(dims);
    let (cubes, units) = elementwise(&y);
    let [runs, inputs] = windows.map(CubeTensor::into_tensor_arg);
    maxima::launch(
        &y.client,
        cubes,
        units,
        address_type(&[&x.tensor, &y]),
        x.tensor.clone().into_tensor_arg(),
        runs,
        inputs,
        y.clone().into_tensor_arg(),
        size(x.dims()),
        size(dims),
        dims.iter().product(),
        x.is_channels_last(),
        element(y.dtype),
    );
    y
}

/// The gradient of the volume; `windows_back` are the runs and outputs of each input along each axis.
pub(super) fn max_pool_gradient(
    x: CubeTensor,
    windows: [CubeTensor; 2],
    windows_back: [CubeTensor; 2],
    gradient: CubeTensor,
) -> CubeTensor {
    let x = Volume::of(x);
    let gradient = Volume::in_layout(gradient, x.layout);
    let x_gradient = x.empty_like(x.dims());
    let (cubes, units) = elementwise(&x_gradient);
    let to = size(super::volume::dims(&gradient));
    let [runs, inputs] = windows.map(CubeTensor::into_tensor_arg);
    let [runs_back, outputs] = windows_back.map(CubeTensor::into_tensor_arg);
    gradients_of_maxima::launch(
        &x_gradient.client,
        cubes,
        units,
        address_type(&[&x.tensor, &gradient]),
        x.tensor.clone().into_tensor_arg(),
        runs,
        inputs,
        runs_back,
        outputs,
        gradient.into_tensor_arg(),
        x_gradient.clone().into_tensor_arg(),
        size(x.dims()),
        to,
        x.dims().iter().product(),
        x.is_channels_last(),
        element(x.tensor.dtype),
    );
    x_gradient
}

//! A unit takes a few results and reads what they need from the volumes: for convolutions that are too small for tiles.

use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::cubecl::{self, calculate_cube_count_elemwise};
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::conv::ConvShape;

use super::Operands;
use super::geometry::{Sizes, is_inside, position_of, row_seen, seen, sizes, tap_of};
use crate::cube::kernels::volume::{address_type, element, elementwise};
use crate::cube::parts::dims_of_weight_parts;

/// Neighbouring channels of one position, by one unit: for convolutions that are too small for tiles.
#[cube(launch, address_type = "dynamic")]
fn convolve_few<E: Float>(
    x: &Tensor<E>,
    // `[depth, height, width, channels_in / groups, channels_out]`
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    y: &mut Tensor<E>,
    sizes: Sizes,
    #[comptime] channels: usize,
    #[define(E)] _element: ElemType,
) {
    let blocks = sizes.channels_out / channels;
    let position = ABSOLUTE_POS / blocks;
    if position >= sizes.rows * sizes.out_width {
        terminate!();
    }
    let first = ABSOLUTE_POS % blocks * channels;
    let group = first / sizes.out_per_group;
    let place = position_of(position, &sizes);
    let mut sums = Array::<f32>::new(channels);
    #[unroll]
    for index in 0..channels {
        sums[index] = bias[first + index];
    }
    for tap in 0..sizes.of_depth.taps * sizes.of_height.taps * sizes.of_width.taps {
        let from = seen(&place, tap, &sizes);
        if from.valid {
            for channel in 0..sizes.per_group {
                let value = f32::cast_from(x[from.index + group * sizes.per_group + channel]);
                let weights = (tap * sizes.per_group + channel) * sizes.channels_out + first;
                #[unroll]
                for index in 0..channels {
                    sums[index] += value * weight[weights + index];
                }
            }
        }
    }
    #[unroll]
    for index in 0..channels {
        y[position * sizes.channels_out + first + index] = E::cast_from(sums[index]);
    }
}

/// One sum of one part, by one unit.
#[cube(launch, address_type = "dynamic")]
fn convolve_weight_gradient_few<E: Float>(
    x: &Tensor<E>,
    gradient: &Tensor<E>,
    // `[parts, channels_out, taps, channels_in / groups]`
    sums_of_parts: &mut Tensor<f32>,
    sizes: Sizes,
    parts: usize,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS >= sums_of_parts.len() {
        terminate!();
    }
    let taps = sizes.of_depth.taps * sizes.of_height.taps * sizes.of_width.taps;
    let of_weight = ABSOLUTE_POS / sizes.per_group;
    let tap = tap_of(of_weight % taps, &sizes);
    let out = of_weight / taps % sizes.channels_out;
    let part = of_weight / taps / sizes.channels_out;
    let channel = out / sizes.out_per_group * sizes.per_group + ABSOLUTE_POS % sizes.per_group;
    let rows_of_part = sizes.rows.div_ceil(parts);
    let begin = usize::min(sizes.rows, part * rows_of_part);
    let mut sum = 0.0f32;
    for row in begin..usize::min(sizes.rows, begin + rows_of_part) {
        let read = row_seen(row, &tap, &sizes);
        if read.valid {
            for width in 0..sizes.out_width {
                let x_read = width * sizes.of_width.stride + tap.width;
                if is_inside(x_read, &sizes.of_width, sizes.width) {
                    let position = read.index + (x_read - sizes.of_width.padding);
                    let value = f32::cast_from(x[position * sizes.channels_in + channel]);
                    let place = (row * sizes.out_width + width) * sizes.channels_out + out;
                    sum += value * f32::cast_from(gradient[place]);
                }
            }
        }
    }
    sums_of_parts[ABSOLUTE_POS] = sum;
}

/// Writes `conv3d(x, weight) + bias` into `y`.
pub(super) fn forward(operands: &Operands, y: &CubeTensor, shape: &ConvShape) {
    let Operands { x, weight, bias } = operands;
    let [_, channels, ..] = shape.output_dims();
    let together = if (channels / shape.settings().groups).is_multiple_of(4) { 4 } else { 1 };
    let units = shape.output_len() / together;
    let cube_dim = CubeDim::new(&y.client, units);
    convolve_few::launch(
        &y.client,
        calculate_cube_count_elemwise(&y.client, units, cube_dim),
        cube_dim,
        address_type(&[x, y]),
        x.clone().into_tensor_arg(),
        weight.clone().into_tensor_arg(),
        bias.clone().into_tensor_arg(),
        y.clone().into_tensor_arg(),
        sizes(shape),
        together,
        element(x.dtype),
    );
}

/// Writes the parts of the gradient of the weight into `sums`.
pub(super) fn weight_gradient(x: &CubeTensor, gradient: &CubeTensor, sums: &CubeTensor, shape: &ConvShape) {
    let [parts, ..] = dims_of_weight_parts(shape);
    let (cubes, units) = elementwise(sums);
    convolve_weight_gradient_few::launch(
        &sums.client,
        cubes,
        units,
        address_type(&[x, gradient, sums]),
        x.clone().into_tensor_arg(),
        gradient.clone().into_tensor_arg(),
        sums.clone().into_tensor_arg(),
        sizes(shape),
        parts,
        element(x.dtype),
    );
}

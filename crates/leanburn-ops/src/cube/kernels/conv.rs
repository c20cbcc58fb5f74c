//! Convolutions as products of matrices that are never made: a cube takes a tile of the result, and its units read what
//! the tile needs from the volumes, a few channels or positions at a time.

use burn::tensor::DType;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::cubecl::{self, calculate_cube_count_elemwise};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use super::half_conv;
use super::volume::{Layout, Volume, address_type, element, elementwise, small};
use crate::cube::parts::dims_of_weight_parts;

/// Units of a cube: as many as WebGPU always has.
const UNITS: usize = 256;

/// Terms of the sums that are taken into shared memory at a time.
const TERMS: usize = 8;

/// The sizes of a convolution.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    channels_in: usize,
    depth: usize,
    height: usize,
    width: usize,
    channels_out: usize,
    out_depth: usize,
    out_height: usize,
    out_width: usize,
    /// Channels of a group, in and out.
    per_group: usize,
    out_per_group: usize,
    /// Rows of the output: planes' rows of all items.
    rows: usize,
    of_depth: Axis,
    of_height: Axis,
    of_width: Axis,
}

/// How a convolution goes along one axis.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Axis {
    taps: usize,
    stride: usize,
    dilation: usize,
    /// Zeros before the first value.
    padding: usize,
}

/// The tile of a cube, and that of a unit in it: `rows / unit_rows * columns / unit_columns` are the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    rows: usize,
    columns: usize,
    unit_rows: usize,
    unit_columns: usize,
}

const fn tile(rows: usize, columns: usize, unit_rows: usize, unit_columns: usize) -> Tile {
    assert!(rows / unit_rows * (columns / unit_columns) == UNITS);
    Tile { rows, columns, unit_rows, unit_columns }
}

/// The sums of a unit's tile, over the terms that are in shared memory.
#[cube]
fn multiply(
    left: &Shared<[f32]>,
    right: &Shared<[f32]>,
    sums: &mut Array<f32>,
    first_row: usize,
    first_column: usize,
    #[comptime] tile: Tile,
) {
    let rows_apart = comptime!(tile.rows / tile.unit_rows);
    let columns_apart = comptime!(tile.columns / tile.unit_columns);
    let mut of_rows = Array::<f32>::new(tile.unit_rows);
    let mut of_columns = Array::<f32>::new(tile.unit_columns);
    for term in 0..TERMS {
        #[unroll]
        for row in 0..tile.unit_rows {
            of_rows[row] = left[term * tile.rows + first_row + row * rows_apart];
        }
        #[unroll]
        for column in 0..tile.unit_columns {
            of_columns[column] = right[term * tile.columns + first_column + column * columns_apart];
        }
        #[unroll]
        for row in 0..tile.unit_rows {
            #[unroll]
            for column in 0..tile.unit_columns {
                sums[row * tile.unit_columns + column] += of_rows[row] * of_columns[column];
            }
        }
    }
}

/// Where the input is that the output sees through a tap; `valid` is false where it sees a zero.
#[derive(CubeType, Clone, Copy)]
struct Seen {
    index: usize,
    valid: bool,
}

#[cube]
fn seen(item: usize, depth: usize, height: usize, width: usize, tap: usize, sizes: &Sizes) -> Seen {
    let tap_rows = tap / sizes.of_width.taps;
    let z = depth * sizes.of_depth.stride + tap_rows / sizes.of_height.taps * sizes.of_depth.dilation;
    let y = height * sizes.of_height.stride + tap_rows % sizes.of_height.taps * sizes.of_height.dilation;
    let x = width * sizes.of_width.stride + tap % sizes.of_width.taps * sizes.of_width.dilation;
    let valid = is_inside(z, &sizes.of_depth, sizes.depth)
        && is_inside(y, &sizes.of_height, sizes.height)
        && is_inside(x, &sizes.of_width, sizes.width);
    let plane = item * sizes.depth + (z - sizes.of_depth.padding);
    let row = plane * sizes.height + (y - sizes.of_height.padding);
    Seen { index: (row * sizes.width + (x - sizes.of_width.padding)) * sizes.channels_in, valid }
}

/// The first position of the input's row that a row of the output sees through a tap.
#[cube]
fn row_seen(row: usize, tap_depth: usize, tap_height: usize, sizes: &Sizes) -> Seen {
    let plane = row / sizes.out_height;
    let z = plane % sizes.out_depth * sizes.of_depth.stride + tap_depth;
    let y = row % sizes.out_height * sizes.of_height.stride + tap_height;
    let valid = is_inside(z, &sizes.of_depth, sizes.depth) && is_inside(y, &sizes.of_height, sizes.height);
    let plane = plane / sizes.out_depth * sizes.depth + (z - sizes.of_depth.padding);
    Seen { index: (plane * sizes.height + (y - sizes.of_height.padding)) * sizes.width, valid }
}

/// Whether a place on the padded axis holds a value.
#[cube]
fn is_inside(place: usize, axis: &Axis, length: usize) -> bool {
    place >= axis.padding && place < length + axis.padding
}

/// A tile of `positions x channels_out`.
#[cube(launch, address_type = "dynamic")]
fn convolve<E: Float>(
    x: &Tensor<E>,
    // `[depth, height, width, channels_in / groups, channels_out]`
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    y: &mut Tensor<E>,
    sizes: Sizes,
    #[comptime] tile: Tile,
    #[define(E)] _element: ElemType,
) {
    let taps = sizes.of_depth.taps * sizes.of_height.taps * sizes.of_width.taps;
    let unit = UNIT_POS as usize;

    let tiles_of_group = sizes.out_per_group.div_ceil(tile.columns);
    let group = CUBE_POS_Y as usize / tiles_of_group;
    let first_channel = CUBE_POS_Y as usize % tiles_of_group * tile.columns;
    let first_position = (CUBE_POS_Z as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize) * tile.rows;
    let positions = sizes.rows * sizes.out_width;

    // The unit always reads for one position, and some of the terms.
    let terms_of_unit = comptime!(TERMS * tile.rows / UNITS);
    let row_read = unit % tile.rows;
    let first_term = unit / tile.rows * terms_of_unit;
    let position = first_position + row_read;
    let row = position / sizes.out_width;
    let plane = row / sizes.out_height;
    let (item, depth) = (plane / sizes.out_depth, plane % sizes.out_depth);
    let (height, width) = (row % sizes.out_height, position % sizes.out_width);
    let weights_of_unit = comptime!((TERMS * tile.columns).div_ceil(UNITS));

    let mut left = Shared::<[f32]>::new_slice(comptime!(TERMS * tile.rows));
    let mut right = Shared::<[f32]>::new_slice(comptime!(TERMS * tile.columns));
    let mut sums = Array::<f32>::new(comptime!(tile.unit_rows * tile.unit_columns));
    #[unroll]
    for index in 0..tile.unit_rows * tile.unit_columns {
        sums[index] = 0.0f32;
    }
    // Rows and columns of units side by side are side by side.
    let rows_apart = comptime!(tile.rows / tile.unit_rows);
    let columns_apart = comptime!(tile.columns / tile.unit_columns);
    let (first_row, first_column) = (unit / columns_apart, unit % columns_apart);

    // What the next step needs is read while this one is computed.
    let mut values = Array::<f32>::new(terms_of_unit);
    let mut weights = Array::<f32>::new(weights_of_unit);
    let steps = taps * sizes.per_group.div_ceil(TERMS);
    let mut step = 0usize.runtime();
    let mut tap = 0usize.runtime();
    let mut channel = 0usize.runtime();
    let first = seen(item, depth, height, width, 0usize.runtime(), &sizes);
    let (mut place_read, mut valid) = (first.index, first.valid && position < positions);
    while step <= steps {
        if step > 0 {
            sync_cube();
            #[unroll]
            for term in 0..terms_of_unit {
                left[(first_term + term) * tile.rows + row_read] = values[term];
            }
            #[unroll]
            for index in 0..weights_of_unit {
                let place = index * UNITS + unit;
                if place < TERMS * tile.columns {
                    right[place] = weights[index];
                }
            }
            sync_cube();
        }
        if step < steps {
            #[unroll]
            for term in 0..terms_of_unit {
                let here = channel + first_term + term;
                values[term] = 0.0f32;
                if valid && here < sizes.per_group {
                    values[term] = f32::cast_from(x[place_read + group * sizes.per_group + here]);
                }
            }
            #[unroll]
            for index in 0..weights_of_unit {
                let place = index * UNITS + unit;
                let here = channel + place / tile.columns;
                let out = first_channel + place % tile.columns;
                weights[index] = 0.0f32;
                if here < sizes.per_group && out < sizes.out_per_group {
                    let of_term = (tap * sizes.per_group + here) * sizes.channels_out;
                    weights[index] = weight[of_term + group * sizes.out_per_group + out];
                }
            }
            channel += TERMS;
            if channel >= sizes.per_group {
                channel = 0usize.runtime();
                tap += 1usize;
                let next = seen(item, depth, height, width, tap, &sizes);
                place_read = next.index;
                valid = next.valid && position < positions;
            }
        }
        if step > 0 {
            multiply(&left, &right, &mut sums, first_row, first_column, tile);
        }
        step += 1usize;
    }

    #[unroll]
    for row in 0..tile.unit_rows {
        let position = first_position + first_row + row * rows_apart;
        #[unroll]
        for column in 0..tile.unit_columns {
            let out = first_channel + first_column + column * columns_apart;
            if position < positions && out < sizes.out_per_group {
                let channel = group * sizes.out_per_group + out;
                let sum = sums[row * tile.unit_columns + column] + bias[channel];
                y[position * sizes.channels_out + channel] = E::cast_from(sum);
            }
        }
    }
}

/// A tile of `channels_out x (taps, channels_in)`, over some rows of the output.
#[cube(launch, address_type = "dynamic")]
fn convolve_weight_gradient<E: Float>(
    x: &Tensor<E>,
    gradient: &Tensor<E>,
    // `[parts, channels_out, taps, channels_in / groups]`
    sums_of_parts: &mut Tensor<f32>,
    sizes: Sizes,
    parts: usize,
    #[comptime] tile: Tile,
    #[define(E)] _element: ElemType,
) {
    let taps = sizes.of_depth.taps * sizes.of_height.taps * sizes.of_width.taps;
    let values_of_left = comptime!((TERMS * tile.rows).div_ceil(UNITS));
    let values_of_right = comptime!(TERMS * tile.columns / UNITS);
    let terms_apart = comptime!(UNITS / tile.columns);
    let unit = UNIT_POS as usize;

    let tiles_of_group = sizes.out_per_group.div_ceil(tile.rows);
    let group = CUBE_POS_Y as usize / tiles_of_group;
    let first_out = CUBE_POS_Y as usize % tiles_of_group * tile.rows;
    let first_of_tile = CUBE_POS_X as usize * tile.columns;
    let part = CUBE_POS_Z as usize;
    let columns = taps * sizes.per_group;

    // The unit always reads for one column.
    let column_read = first_of_tile + unit % tile.columns;
    let channel_read = group * sizes.per_group + column_read % sizes.per_group;
    let tap = column_read / sizes.per_group;
    let tap_rows = tap / sizes.of_width.taps;
    let tap_width = tap % sizes.of_width.taps * sizes.of_width.dilation;
    let tap_height = tap_rows % sizes.of_height.taps * sizes.of_height.dilation;
    let tap_depth = tap_rows / sizes.of_height.taps * sizes.of_depth.dilation;

    let mut left = Shared::<[f32]>::new_slice(comptime!(TERMS * tile.rows));
    let mut right = Shared::<[f32]>::new_slice(comptime!(TERMS * tile.columns));
    let mut sums = Array::<f32>::new(comptime!(tile.unit_rows * tile.unit_columns));
    #[unroll]
    for index in 0..tile.unit_rows * tile.unit_columns {
        sums[index] = 0.0f32;
    }
    // Rows and columns of units side by side are side by side.
    let rows_apart = comptime!(tile.rows / tile.unit_rows);
    let columns_apart = comptime!(tile.columns / tile.unit_columns);
    let (first_row, first_column) = (unit / columns_apart, unit % columns_apart);

    // What the next step needs is read while this one is computed.
    let mut gradients = Array::<f32>::new(values_of_left);
    let mut values = Array::<f32>::new(values_of_right);
    let rows_of_part = sizes.rows.div_ceil(parts);
    let begin = usize::min(sizes.rows, part * rows_of_part);
    let steps = (usize::min(sizes.rows, begin + rows_of_part) - begin) * sizes.out_width.div_ceil(TERMS);
    let mut step = 0usize.runtime();
    let mut width = 0usize.runtime();
    let mut row = begin;
    let first = row_seen(row, tap_depth, tap_height, &sizes);
    let (mut row_index, mut row_valid) = (first.index, first.valid && column_read < columns);
    while step <= steps {
        if step > 0 {
            sync_cube();
            #[unroll]
            for index in 0..values_of_left {
                let place = index * UNITS + unit;
                if place < TERMS * tile.rows {
                    left[place] = gradients[index];
                }
            }
            #[unroll]
            for index in 0..values_of_right {
                right[index * UNITS + unit] = values[index];
            }
            sync_cube();
        }
        if step < steps {
            #[unroll]
            for index in 0..values_of_left {
                let place = index * UNITS + unit;
                let here = width + place / tile.rows;
                let out = first_out + place % tile.rows;
                gradients[index] = 0.0f32;
                if here < sizes.out_width && out < sizes.out_per_group {
                    let channel = group * sizes.out_per_group + out;
                    let position = row * sizes.out_width + here;
                    gradients[index] = f32::cast_from(gradient[position * sizes.channels_out + channel]);
                }
            }
            #[unroll]
            for index in 0..values_of_right {
                let here = width + index * terms_apart + unit / tile.columns;
                let x_read = here * sizes.of_width.stride + tap_width;
                values[index] = 0.0f32;
                if row_valid && here < sizes.out_width && is_inside(x_read, &sizes.of_width, sizes.width) {
                    let position = row_index + (x_read - sizes.of_width.padding);
                    values[index] = f32::cast_from(x[position * sizes.channels_in + channel_read]);
                }
            }
            width += TERMS;
            if width >= sizes.out_width {
                width = 0usize.runtime();
                row += 1usize;
                let next = row_seen(row, tap_depth, tap_height, &sizes);
                row_index = next.index;
                row_valid = next.valid && column_read < columns;
            }
        }
        if step > 0 {
            multiply(&left, &right, &mut sums, first_row, first_column, tile);
        }
        step += 1usize;
    }

    #[unroll]
    for row in 0..tile.unit_rows {
        let out = first_out + first_row + row * rows_apart;
        #[unroll]
        for column in 0..tile.unit_columns {
            let here = first_of_tile + first_column + column * columns_apart;
            if out < sizes.out_per_group && here < columns {
                let channel = part * sizes.channels_out + group * sizes.out_per_group + out;
                sums_of_parts[channel * columns + here] = sums[row * tile.unit_columns + column];
            }
        }
    }
}

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
    let row = position / sizes.out_width;
    let plane = row / sizes.out_height;
    let (item, depth) = (plane / sizes.out_depth, plane % sizes.out_depth);
    let (height, width) = (row % sizes.out_height, position % sizes.out_width);
    let mut sums = Array::<f32>::new(channels);
    #[unroll]
    for index in 0..channels {
        sums[index] = bias[first + index];
    }
    for tap in 0..sizes.of_depth.taps * sizes.of_height.taps * sizes.of_width.taps {
        let from = seen(item, depth, height, width, tap, &sizes);
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
    let tap = of_weight % taps;
    let out = of_weight / taps % sizes.channels_out;
    let part = of_weight / taps / sizes.channels_out;
    let channel = out / sizes.out_per_group * sizes.per_group + ABSOLUTE_POS % sizes.per_group;
    let tap_rows = tap / sizes.of_width.taps;
    let tap_width = tap % sizes.of_width.taps * sizes.of_width.dilation;
    let tap_height = tap_rows % sizes.of_height.taps * sizes.of_height.dilation;
    let tap_depth = tap_rows / sizes.of_height.taps * sizes.of_depth.dilation;
    let rows_of_part = sizes.rows.div_ceil(parts);
    let begin = usize::min(sizes.rows, part * rows_of_part);
    let mut sum = 0.0f32;
    for row in begin..usize::min(sizes.rows, begin + rows_of_part) {
        let read = row_seen(row, tap_depth, tap_height, &sizes);
        if read.valid {
            for width in 0..sizes.out_width {
                let x_read = width * sizes.of_width.stride + tap_width;
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

/// Multiplications of a convolution that are too few to fill tiles on a card.
const FEW: usize = 1 << 27;

fn sizes(shape: &ConvShape) -> SizesLaunch {
    let [_, channels_in, depth, height, width] = shape.input_dims();
    let [batch_size, channels_out, out_depth, out_height, out_width] = shape.output_dims();
    let ConvSettings { stride, dilation, padding, groups } = shape.settings();
    let [_, _, kernel @ ..] = shape.weight_dims();
    let axis = |axis: usize| AxisLaunch::new(kernel[axis], stride[axis], dilation[axis], padding[axis][0]);
    SizesLaunch::new(
        channels_in,
        depth,
        height,
        width,
        channels_out,
        out_depth,
        out_height,
        out_width,
        channels_in / groups,
        channels_out / groups,
        batch_size * out_depth * out_height,
        axis(0),
        axis(1),
        axis(2),
    )
}

/// `conv3d(x, weight) + bias`, channels last; weight and bias are float32.
pub(super) fn forward(x: CubeTensor, weight: CubeTensor, bias: CubeTensor, shape: &ConvShape) -> CubeTensor {
    let [_, channels, ..] = shape.output_dims();
    let groups = shape.settings().groups;
    let is_small = shape.output_len() < FEW_POSITIONS * channels;
    let tile = match channels / groups {
        33.. if is_small => tile(64, 64, 4, 4),
        33.. => tile(256, 64, 8, 8),
        9.. if is_small => tile(64, 32, 4, 2),
        9.. => tile(256, 32, 8, 4),
        3.. => tile(256, 8, 8, 1),
        _ => tile(256, 2, 2, 1),
    };
    let x = Volume::in_layout(x, Layout::ChannelsLast);
    if let Some(y) = half_conv::forward(&x, &weight, &bias, shape) {
        return Volume::of(y).in_order();
    }
    let weight = into_contiguous(permute(weight, &[2, 3, 4, 1, 0]));
    let [batch_size, channels, depth, height, width] = shape.output_dims();
    let y = small(&x, &[batch_size, depth, height, width, channels], x.dtype);
    if shape.multiplications() < FEW {
        let together = if (channels / groups).is_multiple_of(4) { 4 } else { 1 };
        let units = shape.output_len() / together;
        let cube_dim = CubeDim::new(&y.client, units);
        convolve_few::launch(
            &y.client,
            calculate_cube_count_elemwise(&y.client, units, cube_dim),
            cube_dim,
            address_type(&[&x, &y]),
            x.clone().into_tensor_arg(),
            weight.into_tensor_arg(),
            into_contiguous(bias).into_tensor_arg(),
            y.clone().into_tensor_arg(),
            sizes(shape),
            together,
            element(x.dtype),
        );
        return Volume::of(permute(y, &[0, 4, 1, 2, 3])).in_order();
    }
    let cubes = (batch_size * depth * height * width).div_ceil(tile.rows) as u32;
    let in_x = cubes.clamp(1, MOST_CUBES);
    let in_y = groups * (channels / groups).div_ceil(tile.columns);
    convolve::launch(
        &y.client,
        CubeCount::Static(in_x, in_y as u32, cubes.div_ceil(in_x)),
        CubeDim::new_1d(UNITS as u32),
        address_type(&[&x, &y]),
        x.clone().into_tensor_arg(),
        weight.into_tensor_arg(),
        into_contiguous(bias).into_tensor_arg(),
        y.clone().into_tensor_arg(),
        sizes(shape),
        tile,
        element(x.dtype),
    );
    Volume::of(permute(y, &[0, 4, 1, 2, 3])).in_order()
}

/// Positions that make too few tiles of 256 to keep a card busy.
const FEW_POSITIONS: usize = 1 << 16;

/// Cubes along one axis of a launch that every device takes.
const MOST_CUBES: u32 = 32768;

/// The parts of the gradient of the weight, `[parts, channels_out, taps, channels_in / groups]` in float32.
pub(super) fn weight_gradient(x: CubeTensor, gradient: CubeTensor, shape: &ConvShape) -> CubeTensor {
    let [x, gradient] = [x, gradient].map(|volume| Volume::in_layout(volume, Layout::ChannelsLast));
    let dims @ [parts, channels_out, taps, per_group] = dims_of_weight_parts(shape);
    let groups = shape.settings().groups;
    let tile = match (channels_out / groups, taps * per_group) {
        (_, ..=64) => tile(64, 64, 4, 4),
        (33.., _) => tile(64, 256, 8, 8),
        (9.., _) => tile(32, 256, 4, 8),
        _ => tile(8, 256, 1, 8),
    };
    let sums = small(&x, &dims, DType::F32);
    if shape.multiplications() < FEW {
        let (cubes, units) = elementwise(&sums);
        convolve_weight_gradient_few::launch(
            &sums.client,
            cubes,
            units,
            address_type(&[&x, &gradient, &sums]),
            x.clone().into_tensor_arg(),
            gradient.into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            sizes(shape),
            parts,
            element(x.dtype),
        );
        return sums;
    }
    let in_x = (taps * per_group).div_ceil(tile.columns);
    let in_y = groups * (channels_out / groups).div_ceil(tile.rows);
    convolve_weight_gradient::launch(
        &sums.client,
        CubeCount::Static(in_x as u32, in_y as u32, parts as u32),
        CubeDim::new_1d(UNITS as u32),
        address_type(&[&x, &gradient, &sums]),
        x.clone().into_tensor_arg(),
        gradient.into_tensor_arg(),
        sums.clone().into_tensor_arg(),
        sizes(shape),
        parts,
        tile,
        element(x.dtype),
    );
    sums
}

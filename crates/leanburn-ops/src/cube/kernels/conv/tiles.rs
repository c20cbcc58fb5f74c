//! A cube takes a tile of the result, and its units read what the tile needs from the volumes, a few channels or positions at a
//! time, into shared memory.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::conv::ConvShape;

use super::Operands;
use super::geometry::{Sizes, is_inside, position_of, row_seen, seen, sizes, tap_of};
use crate::cube::kernels::volume::{address_type, element};
use crate::cube::parts::dims_of_weight_parts;

/// Units of a cube: as many as WebGPU always has.
const UNITS: usize = 256;

/// Terms of the sums that are taken into shared memory at a time.
const TERMS: usize = 8;

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
    let place = position_of(position, &sizes);
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
    let first = seen(&place, 0usize.runtime(), &sizes);
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
                let next = seen(&place, tap, &sizes);
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
    let tap = tap_of(column_read / sizes.per_group, &sizes);

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
    let first = row_seen(row, &tap, &sizes);
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
                let x_read = here * sizes.of_width.stride + tap.width;
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
                let next = row_seen(row, &tap, &sizes);
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

/// Writes `conv3d(x, weight) + bias` into `y`.
pub(super) fn forward(operands: &Operands, y: &CubeTensor, shape: &ConvShape) {
    let Operands { x, weight, bias } = operands;
    let [_, channels, ..] = shape.output_dims();
    let groups = shape.settings().groups;
    let positions = shape.output_len() / channels.max(1);
    let is_small = positions < FEW_POSITIONS;
    let tile = match channels / groups {
        33.. if is_small => tile(64, 64, 4, 4),
        33.. => tile(256, 64, 8, 8),
        9.. if is_small => tile(64, 32, 4, 2),
        9.. => tile(256, 32, 8, 4),
        3.. => tile(256, 8, 8, 1),
        _ => tile(256, 2, 2, 1),
    };
    let cubes = positions.div_ceil(tile.rows) as u32;
    let in_x = cubes.clamp(1, MOST_CUBES);
    let in_y = groups * (channels / groups).div_ceil(tile.columns);
    convolve::launch(
        &y.client,
        CubeCount::Static(in_x, in_y as u32, cubes.div_ceil(in_x)),
        CubeDim::new_1d(UNITS as u32),
        address_type(&[x, y]),
        x.clone().into_tensor_arg(),
        weight.clone().into_tensor_arg(),
        bias.clone().into_tensor_arg(),
        y.clone().into_tensor_arg(),
        sizes(shape),
        tile,
        element(x.dtype),
    );
}

/// Positions that make too few tiles of 256 to keep a card busy.
const FEW_POSITIONS: usize = 1 << 16;

/// Cubes along one axis of a launch that every device takes.
const MOST_CUBES: u32 = 32768;

/// Writes the parts of the gradient of the weight into `sums`.
pub(super) fn weight_gradient(x: &CubeTensor, gradient: &CubeTensor, sums: &CubeTensor, shape: &ConvShape) {
    let [parts, channels_out, taps, per_group] = dims_of_weight_parts(shape);
    let groups = shape.settings().groups;
    let tile = match (channels_out / groups, taps * per_group) {
        (_, ..=64) => tile(64, 64, 4, 4),
        (33.., _) => tile(64, 256, 8, 8),
        (9.., _) => tile(32, 256, 4, 8),
        _ => tile(8, 256, 1, 8),
    };
    let in_x = (taps * per_group).div_ceil(tile.columns);
    let in_y = groups * (channels_out / groups).div_ceil(tile.rows);
    convolve_weight_gradient::launch(
        &sums.client,
        CubeCount::Static(in_x as u32, in_y as u32, parts as u32),
        CubeDim::new_1d(UNITS as u32),
        address_type(&[x, gradient, sums]),
        x.clone().into_tensor_arg(),
        gradient.clone().into_tensor_arg(),
        sums.clone().into_tensor_arg(),
        sizes(shape),
        parts,
        tile,
        element(x.dtype),
    );
}

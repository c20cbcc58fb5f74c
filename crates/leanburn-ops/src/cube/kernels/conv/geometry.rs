//! Which values of its input a convolution sees, and where they are in volumes with the channels last.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;
use leanburn_kernels::conv::{ConvSettings, ConvShape};

/// The sizes of a convolution.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) channels_in: usize,
    pub(super) depth: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels_out: usize,
    pub(super) out_depth: usize,
    pub(super) out_height: usize,
    pub(super) out_width: usize,
    /// Channels of a group, in and out.
    pub(super) per_group: usize,
    pub(super) out_per_group: usize,
    /// Rows of the output: planes' rows of all items.
    pub(super) rows: usize,
    pub(super) of_depth: Axis,
    pub(super) of_height: Axis,
    pub(super) of_width: Axis,
}

/// How a convolution goes along one axis.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Axis {
    pub(super) taps: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    /// Zeros before the first value.
    pub(super) padding: usize,
}

pub(super) fn sizes(shape: &ConvShape) -> SizesLaunch {
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

/// A position of the output.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Position {
    item: usize,
    depth: usize,
    height: usize,
    width: usize,
}

/// The position of an index over all items.
#[cube]
pub(super) fn position_of(index: usize, sizes: &Sizes) -> Position {
    let row = index / sizes.out_width;
    let plane = row / sizes.out_height;
    Position {
        item: plane / sizes.out_depth,
        depth: plane % sizes.out_depth,
        height: row % sizes.out_height,
        width: index % sizes.out_width,
    }
}

/// How far a tap is from the first one along each axis.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Tap {
    pub(super) depth: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

#[cube]
pub(super) fn tap_of(index: usize, sizes: &Sizes) -> Tap {
    let rows = index / sizes.of_width.taps;
    Tap {
        depth: rows / sizes.of_height.taps * sizes.of_depth.dilation,
        height: rows % sizes.of_height.taps * sizes.of_height.dilation,
        width: index % sizes.of_width.taps * sizes.of_width.dilation,
    }
}

/// Where the input is that the output sees through a tap; `valid` is false where it sees a zero.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Seen {
    pub(super) index: usize,
    pub(super) valid: bool,
}

#[cube]
pub(super) fn seen(place: &Position, tap: usize, sizes: &Sizes) -> Seen {
    let tap = tap_of(tap, sizes);
    let z = place.depth * sizes.of_depth.stride + tap.depth;
    let y = place.height * sizes.of_height.stride + tap.height;
    let x = place.width * sizes.of_width.stride + tap.width;
    let valid = is_inside(z, &sizes.of_depth, sizes.depth)
        && is_inside(y, &sizes.of_height, sizes.height)
        && is_inside(x, &sizes.of_width, sizes.width);
    let plane = place.item * sizes.depth + (z - sizes.of_depth.padding);
    let row = plane * sizes.height + (y - sizes.of_height.padding);
    Seen { index: (row * sizes.width + (x - sizes.of_width.padding)) * sizes.channels_in, valid }
}

/// The first position of the input's row that a row of the output sees through a tap.
#[cube]
pub(super) fn row_seen(row: usize, tap: &Tap, sizes: &Sizes) -> Seen {
    let plane = row / sizes.out_height;
    let z = plane % sizes.out_depth * sizes.of_depth.stride + tap.depth;
    let y = row % sizes.out_height * sizes.of_height.stride + tap.height;
    let valid = is_inside(z, &sizes.of_depth, sizes.depth) && is_inside(y, &sizes.of_height, sizes.height);
    let plane = plane / sizes.out_depth * sizes.depth + (z - sizes.of_depth.padding);
    Seen { index: (plane * sizes.height + (y - sizes.of_height.padding)) * sizes.width, valid }
}

/// Whether a place on the padded axis holds a value.
#[cube]
pub(super) fn is_inside(place: usize, axis: &Axis, length: usize) -> bool {
    place >= axis.padding && place < length + axis.padding
}

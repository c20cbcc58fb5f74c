//! Separable linear maps along the three axes of a volume, in one pass.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::place::{Size, index_of, place_of, size};
use super::volume::{Volume, address_type, element, elementwise};

/// Each output is the sum over its runs of inputs; a run is a first input, and weights on it and on those behind it.
#[cube(launch, address_type = "dynamic")]
fn sum_of_runs<E: Float>(
    x: &Tensor<E>,
    runs: &Tensor<i32>,
    starts: &Tensor<i32>,
    weights: &Tensor<f32>,
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
    let place = place_of(ABSOLUTE_POS, &to, channels_last);
    let (plane, row, column) = (place.depth, to.depth + place.height, to.depth + to.height + place.width);
    let mut sum = 0.0f32;
    for in_depth in 0..runs[2 * plane + 1] as usize {
        let of_plane = weights[runs[2 * plane] as usize + in_depth];
        let depth = starts[plane] as usize + in_depth;
        for in_height in 0..runs[2 * row + 1] as usize {
            let of_row = of_plane * weights[runs[2 * row] as usize + in_height];
            let height = starts[row] as usize + in_height;
            for in_width in 0..runs[2 * column + 1] as usize {
                let weight = of_row * weights[runs[2 * column] as usize + in_width];
                let width = starts[column] as usize + in_width;
                sum += weight * f32::cast_from(x[index_of(&place, depth, height, width, &from, channels_last)]);
            }
        }
    }
    y[ABSOLUTE_POS] = E::cast_from(sum);
}

/// The volume of dimensions `dims`; `tables` are the runs, their first inputs, and their weights.
pub(super) fn resample(x: CubeTensor, tables: [CubeTensor; 3], dims: [usize; 5]) -> CubeTensor {
    let x = Volume::of(x);
    let y = x.empty_like(dims);
    let (cubes, units) = elementwise(&y);
    let [runs, starts, weights] = tables.map(CubeTensor::into_tensor_arg);
    sum_of_runs::launch(
        &y.client,
        cubes,
        units,
        address_type(&[&x.tensor, &y]),
        x.tensor.clone().into_tensor_arg(),
        runs,
        starts,
        weights,
        y.clone().into_tensor_arg(),
        size(x.dims()),
        size(dims),
        dims.iter().product(),
        x.is_channels_last(),
        element(y.dtype),
    );
    y
}

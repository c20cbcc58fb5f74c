//! Sums over the channels of a volume, for the statistics of a norm.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::channel::share_of_unit;
use super::volume::{Volume, address_type, element, elementwise, small};
use crate::cube::parts::parts_of;

/// Positions of a channel that stand for all of them where a rough mean will do.
const SAMPLES: usize = 256;

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

//! Convolutions as products of matrices that are never made: in tiles (`tiles.rs`), or, where there is too little for them, by a
//! unit for each result (`few.rs`); in half precision in matrix units where a card has them (`half.rs`).

mod few;
mod geometry;
mod half;
mod tiles;

use burn::tensor::DType;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::conv::ConvShape;

use super::volume::{Layout, Volume, small};
use crate::cube::parts::dims_of_weight_parts;

/// Multiplications of a convolution that are too few to fill tiles on a card.
const FEW: usize = 1 << 27;

/// What a convolution is made of, as the kernels read it.
struct Operands {
    /// Channels last.
    x: CubeTensor,
    /// `[depth, height, width, channels_in / groups, channels_out]`, float32.
    weight: CubeTensor,
    /// `[channels_out]`, float32.
    bias: CubeTensor,
}

/// `conv3d(x, weight) + bias`, channels last; weight and bias are float32.
pub(super) fn forward(x: CubeTensor, weight: CubeTensor, bias: CubeTensor, shape: &ConvShape) -> CubeTensor {
    let x = Volume::in_layout(x, Layout::ChannelsLast);
    if let Some(y) = half::forward(&x, &weight, &bias, shape) {
        return Volume::of(y).in_order();
    }
    let [batch_size, channels, depth, height, width] = shape.output_dims();
    let y = small(&x, &[batch_size, depth, height, width, channels], x.dtype);
    let weight = into_contiguous(permute(weight, &[2, 3, 4, 1, 0]));
    let operands = Operands { x, weight, bias: into_contiguous(bias) };
    match shape.multiplications() < FEW {
        true => few::forward(&operands, &y, shape),
        false => tiles::forward(&operands, &y, shape),
    }
    Volume::of(permute(y, &[0, 4, 1, 2, 3])).in_order()
}

/// The parts of the gradient of the weight, `[parts, channels_out, taps, channels_in / groups]` in float32.
pub(super) fn weight_gradient(x: CubeTensor, gradient: CubeTensor, shape: &ConvShape) -> CubeTensor {
    let [x, gradient] = [x, gradient].map(|volume| Volume::in_layout(volume, Layout::ChannelsLast));
    let sums = small(&x, &dims_of_weight_parts(shape), DType::F32);
    match shape.multiplications() < FEW {
        true => few::weight_gradient(&x, &gradient, &sums, shape),
        false => tiles::weight_gradient(&x, &gradient, &sums, shape),
    }
    sums
}

//! What callers call: each function on the best instruction set, by the table of its element.

use crate::buffer::filled;
use crate::conv::check::{check_input, check_weight};
use crate::conv::operands::{Input, Output};
use crate::conv::packing::rows::SharedOutput;
use crate::conv::shape::ConvShape;
use crate::kernels::Element;
use crate::simd;

/// Cross-correlation: `output[co][p] = bias[co] + Σ over ci, k of weight[co][ci][k] * input[ci][p * stride + k * dilation -
/// padding]`, where `input` is what the prologue makes of it, and zero outside.
///
/// # Shapes
///
/// `input` is `[batch_size, channels_in, depth, height, width]`, `weight` `[channels_out, channels_in / groups,
/// kernel..]`, `output` `[batch_size, channels_out, ..]` of [`ConvShape::output`].
///
/// # Memory
///
/// [`forward_workspace`](super::forward_workspace()) bytes: the weight packed, up to two and a half times its size where planes are
/// transformed and nothing where its kernel is one element, and for each thread a ring of packed planes of a tile, up to 768 KiB (more only
/// where one row of 16 columns of all channels needs more). Where bfloat16 is multiplied (by AMX, or the dot products of AVX-512 BF16) the
/// weight is packed as bfloat16, and the rest is half of a second-level cache, 128 KiB to 2 MiB, for each thread.
///
/// # Numerics
///
/// float32 regardless of the element; each sum in the same order regardless of the number of threads. In bfloat16, where the
/// processor has AMX, or fast dot products of AVX-512 BF16, and there are enough channels, weights and what the prologue makes are rounded to bfloat16 first, and what is
/// smaller than the smallest normal number is zero.
///
/// # Panics
///
/// If a slice has another length than `shape` says.
pub fn forward<E: Element>(shape: &ConvShape, input: Input<'_, E>, weight: &[f32], output: Output<'_, E>) {
    (E::kernels().conv)(simd::best(), shape, input, weight, output.into());
}

/// [`forward`] into a new vector, plus `residual` if there is one.
///
/// Shapes, memory, numerics and panics as [`forward`].
pub fn forward_allocating<E: Element>(
    shape: &ConvShape,
    input: Input<E>,
    weight: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[E]>,
) -> Vec<E> {
    check_input(shape, &input, shape.channels_in, shape.input_len());
    check_weight(shape, weight);
    let run = |values: &mut [_]| {
        (E::kernels().conv)(simd::best(), shape, input, weight, SharedOutput::uninit(values, bias, residual));
    };
    // SAFETY: a forward pass writes every element of its output.
    unsafe { filled(shape.output_len(), run) }
}

/// The transpose of [`forward`]: `output[ci][i] = bias[ci] + Σ over co, k of weight[co][ci][k] *
/// gradient[co][(i + padding - k * dilation) / stride]`, where that is whole and inside.
///
/// Also the forward pass of the transposed convolution, of which `shape` describes the plain one: its `gradient` is what
/// goes in, its input what comes out. Hence the prologue, the bias and the residual.
///
/// # Shapes
///
/// `gradient` is `[batch_size, channels_out, ..]` of [`ConvShape::output`], `weight` `[channels_out, channels_in /
/// groups, kernel..]`, `output` `[batch_size, channels_in, depth, height, width]`. A bias has `channels_in` elements.
///
/// # Memory, numerics and panics
///
/// As [`forward`].
pub fn data_gradient<E: Element>(shape: &ConvShape, gradient: Input<'_, E>, weight: &[f32], output: Output<'_, E>) {
    (E::kernels().conv_data_gradient)(simd::best(), shape, gradient, weight, output.into());
}

/// [`data_gradient`] into a new vector.
///
/// Shapes, memory, numerics and panics as [`data_gradient`].
pub fn data_gradient_allocating<E: Element>(
    shape: &ConvShape,
    gradient: Input<E>,
    weight: &[f32],
    bias: Option<&[f32]>,
) -> Vec<E> {
    check_input(shape, &gradient, shape.channels_out, shape.output_len());
    check_weight(shape, weight);
    let run = |values: &mut [_]| {
        (E::kernels().conv_data_gradient)(
            simd::best(),
            shape,
            gradient,
            weight,
            SharedOutput::uninit(values, bias, None),
        );
    };
    // SAFETY: a data gradient writes every element of its output.
    unsafe { filled(shape.input_len(), run) }
}

/// Gradient of the weight of a convolution, `[channels_out, channels_in / groups, kernel..]`, into `target`.
///
/// # Shapes
///
/// `input`: `[batch_size, channels_in, input..]`; `gradient` (of the output): `[batch_size, channels_out, output..]`. Both
/// may have a prologue. Swap them for the transposed convolution.
///
/// # Memory
///
/// Per thread about 768 KiB for the packed rows of a tile and about 512 KiB for partial sums, or up to twice as much of both where planes
/// are transformed along the depth, and up to 1 MiB for the packed input where bfloat16 is multiplied (more only for a single row of many thousand columns, or a kernel of many thousand elements). Where the positions are cut into parts, the parts'
/// results: 4 MiB, or twice the weight if that is more. With several items 8 bytes for each weight.
///
/// # Numerics
///
/// Float32 products are added up in registers, over about a thousand positions in the lanes of four vectors or over about
/// a hundred positions of each channel, these sums in float32 over some thousand positions, and such sums in float32
/// again; parts in float64: within 1e-6 of the exact sum, relative.
///
/// Where planes are transformed along the depth, each element is a difference of larger sums: sums of one sign are within 4e-6, and what is
/// not finite gives no number in all elements along the depth.
///
/// Where bfloat16 is multiplied what a prologue makes is rounded to bfloat16, and positions are added up one after the other, some thousand at a time:
/// within 1e-5 of the sum of what is multiplied.
///
/// A product of an infinite input and a gradient outside of the volume may give no number. The result does not depend on the number of
/// threads.
///
/// # Panics
///
/// If a slice does not have the length that the shape says.
pub fn weight_gradient<E: Element>(shape: &ConvShape, input: Input<E>, gradient: Input<E>, target: &mut [f32]) {
    (E::kernels().conv_weight_gradient)(simd::best(), shape, input, gradient, target);
}

/// Sum of each channel of `gradient` over items and positions, into `target`.
///
/// # Shapes
///
/// `gradient`: `[batch_size, channels, positions..]`; `target`: `[channels]`.
///
/// # Memory
///
/// 4 KiB per thread, and 24 bytes for each channel of each item, and for each further 65536 values of it.
///
/// # Numerics
///
/// Float32 within 1024 values (in several partial sums), float64 beyond. The result does not depend on the number of
/// threads.
///
/// # Panics
///
/// If `gradient` is not a whole number of `batch_size * channels` rows, or `target` not one value per channel.
pub fn bias_gradient<E: Element>(batch_size: usize, channels: usize, gradient: &[E], target: &mut [f32]) {
    (E::kernels().conv_bias_gradient)(simd::best(), batch_size, channels, gradient, target);
}

//! Gradients of convolutions on GPUs, in bounded memory.
//!
//! Burn finds the fastest way by trying all it has, and some of its ways copy the volume once for each element of the
//! kernel: 27 times for 3 x 3 x 3. A gradient of a volume is a convolution itself, whose ways are all lean; a gradient of
//! a weight is a sum over positions, which can be taken some planes at a time.

use burn::tensor::{Tensor, ops::ConvOptions};
use leanburn_kernels::{axis_map::AxisMap, conv::ConvShape};

use super::conv::{composed_data_gradient, composed_forward, composed_weight_gradient, shape};
use crate::{Activation, cube};

/// Bytes of copies that a weight's gradient may take where its input is smaller.
const COPIES: usize = 64 << 20;

/// The gradient of the convolution's input: the gradient of its output, with zeros between the strides, convolved with
/// the kernel turned around.
pub(super) fn data_gradient(
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    input: [usize; 5],
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let shape = shape(input, weight.dims(), options);
    let reach: [usize; 3] = std::array::from_fn(|axis| shape.dilation[axis] * (shape.kernel[axis] - 1));
    if (0..3).any(|axis| shape.padding[axis].iter().any(|padding| *padding > reach[axis])) {
        return composed_data_gradient(gradient.clone(), weight, input, options);
    }
    let spread: [AxisMap; 3] = std::array::from_fn(|axis| {
        let [before, after] = shape.padding[axis];
        let length = shape.input[axis] + before + after - reach[axis];
        AxisMap::every(length, shape.stride[axis]).transpose()
    });
    let gradient = match spread.iter().all(AxisMap::is_identity) {
        true => gradient.clone(),
        false => cube::resample3d(gradient.clone(), &spread),
    };
    let padding = std::array::from_fn(|axis| {
        let [before, after] = shape.padding[axis];
        (reach[axis] - before, reach[axis] - after)
    });
    let options = ConvOptions::new_with_padding([1; 3], padding, shape.dilation, shape.groups);
    let weight = turned(weight, shape.groups);
    let turned_shape = super::conv::shape(gradient.dims(), weight.dims(), &options);
    composed_forward(gradient, &weight, None, None, &options, &turned_shape)
}

/// `[out, in / groups, ..]` to `[in, out / groups, ..]`, turned around on every axis.
fn turned(weight: &Tensor<5>, groups: usize) -> Tensor<5> {
    let [channels_out, per_group, depth, height, width] = weight.dims();
    let out_per_group = channels_out / groups;
    let apart: Tensor<6> = weight.clone().reshape([groups, out_per_group, per_group, depth, height, width]);
    let swapped = apart.swap_dims(1, 2).reshape([groups * per_group, out_per_group, depth, height, width]);
    swapped.flip([2, 3, 4])
}

/// The gradient of the weight, some planes of the output at a time.
pub(super) fn weight_gradient(
    x: &Tensor<5>,
    gradient: &Tensor<5>,
    weight: &Tensor<5>,
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let shape = shape(x.dims(), weight.dims(), options);
    let slabs = Slab::all(&shape, x.dtype().size());
    let sums = slabs.into_iter().map(|slab| {
        let Slab { planes, inputs, padding } = slab;
        let [_, height, width] = options.padding;
        let options =
            ConvOptions::new_with_padding(options.stride, [padding, height, width], options.dilation, options.groups);
        let x = narrow(x, inputs);
        let gradient = narrow(gradient, planes);
        composed_weight_gradient(x, gradient, weight, &options)
    });
    sums.reduce(|sum, slab| sum + slab).unwrap_or_else(|| weight.zeros_like())
}

fn narrow(x: &Tensor<5>, (first, length): (usize, usize)) -> Tensor<5> {
    match length == x.dims()[2] {
        true => x.clone(),
        false => x.clone().narrow(2, first, length),
    }
}

/// Some planes of a convolution's output, the planes of its input that they are made of, as first and count, and the
/// zeros beyond these.
#[derive(Debug, PartialEq)]
struct Slab {
    planes: (usize, usize),
    inputs: (usize, usize),
    padding: (usize, usize),
}

impl Slab {
    /// As many planes at a time as a copy for each element of the kernel fits for; none that see zeros alone.
    fn all(shape: &ConvShape, value_size: usize) -> Vec<Self> {
        let [planes, height, width] = shape.output();
        let input = shape.batch_size * shape.channels_in * shape.input.iter().product::<usize>() * value_size;
        let kernel: usize = shape.kernel.iter().product();
        let copies = shape.batch_size * shape.channels_in * kernel * height * width * value_size;
        let at_a_time = (COPIES.max(input) / copies.max(1)).clamp(1, planes);
        // As even as they come: the autotuner knows fewer shapes.
        let at_a_time = planes.div_ceil(planes.div_ceil(at_a_time));
        let slab = |first: usize| Self::of(shape, first, at_a_time.min(planes - first));
        (0..planes).step_by(at_a_time).filter_map(slab).collect()
    }

    fn of(shape: &ConvShape, first: usize, count: usize) -> Option<Self> {
        let before = shape.padding[0][0];
        // In the padded volume.
        let start = first * shape.stride[0];
        let end = (first + count - 1) * shape.stride[0] + shape.dilation[0] * (shape.kernel[0] - 1) + 1;
        let (from, to) = (start.max(before), end.min(before + shape.input[0]));
        let padding = (from.checked_sub(start)?, end.checked_sub(to)?);
        (from < to).then(|| Self { planes: (first, count), inputs: (from - before, to - from), padding })
    }
}

/// The gradient of the bias: the sum of each channel, `[channels]`, float32.
pub(super) fn bias_gradient(gradient: &Tensor<5>) -> Tensor<1> {
    let [batch_size, channels, ..] = gradient.dims();
    let zeros = Tensor::<2>::zeros([batch_size, channels], (&gradient.device(), burn::tensor::DType::F32));
    let maps = [zeros.ones_like(), zeros.clone(), zeros];
    let [sums, _] = cube::norm_act_sums(gradient, gradient, maps, Activation::None);
    sums.sum_dim(0).reshape([channels])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(depth: usize, kernel: usize, stride: usize, padding: [usize; 2]) -> ConvShape {
        ConvShape {
            batch_size: 1,
            channels_in: 64,
            channels_out: 8,
            groups: 1,
            input: [depth, 128, 128],
            kernel: [kernel, 3, 3],
            stride: [stride, 1, 1],
            dilation: [1; 3],
            padding: [padding, [1, 1], [1, 1]],
        }
    }

    /// Each plane of the output once, and the inputs and zeros of a slab give its planes.
    fn check(shape: &ConvShape) -> usize {
        let slabs = Slab::all(shape, 4);
        let mut next = 0;
        for Slab { planes: (first, count), inputs: (from, length), padding: (before, after) } in &slabs {
            assert_eq!(*first, next);
            next += count;
            let room = length + before + after - shape.kernel[0];
            assert_eq!(room / shape.stride[0] + 1, *count, "planes of a slab");
            assert!(from + length <= shape.input[0]);
            assert!(*before == 0 || *from == 0);
        }
        assert_eq!(next, shape.output()[0]);
        slabs.len()
    }

    #[test]
    fn slabs_cover_the_output() {
        assert_eq!(check(&conv(1, 1, 1, [0, 0])), 1);
        for (kernel, stride, padding) in [(3, 1, [1, 1]), (3, 2, [0, 1]), (4, 2, [1, 1]), (5, 1, [2, 2])] {
            assert!(check(&conv(64, kernel, stride, padding)) > 4, "{kernel} {stride} {padding:?}");
        }
    }
}

//! The gradient of a weight on GPUs, in bounded memory.
//!
//! Burn autotunes this gradient, and some of the kernels that it tries copy the volume once for each element of the
//! convolution's kernel: 27 times for 3 x 3 x 3. A gradient of a weight is a sum over positions, which can be taken some
//! planes at a time.

use burn::tensor::{Tensor, ops::ConvOptions};
use leanburn_kernels::conv::ConvShape;

use super::composed;
use super::shape::shape;

/// Bytes of copies that a weight's gradient may take where its input is smaller.
const COPIES: usize = 64 << 20;

/// The gradient of the weight, in the weight's dtype, some planes of the output at a time.
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
        composed::weight_gradient(x, gradient, weight, &options)
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

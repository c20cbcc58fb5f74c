//! The gradient of a weight on GPUs, in bounded memory.
//!
//! Burn autotunes this gradient, and some of the kernels that it tries copy the volume once for each element of the
//! convolution's kernel: 27 times for 3 x 3 x 3. A gradient of a weight is a sum over positions, which can be taken some
//! planes at a time.

use burn::tensor::Tensor;
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use super::composed;
use crate::operations::check::valid;

/// Bytes of copies that a weight's gradient may take where its input is smaller.
const COPIES: usize = 64 << 20;

/// The gradient of the weight, in the weight's dtype, some planes of the output at a time.
pub(super) fn weight_gradient(x: &Tensor<5>, gradient: &Tensor<5>, weight: &Tensor<5>, shape: &ConvShape) -> Tensor<5> {
    let slabs = Slab::all(shape, x.dtype().size());
    let sums = slabs.into_iter().map(|Slab { planes, inputs, padding }| {
        let [_, height, width] = shape.settings().padding;
        let settings = ConvSettings { padding: [padding, height, width], ..shape.settings() };
        let (x, gradient) = (narrow(x, inputs), narrow(gradient, planes));
        let shape = valid("conv3d's gradient", ConvShape::new(x.dims(), weight.dims(), settings));
        composed::weight_gradient(x, gradient, weight, &shape)
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
    padding: [usize; 2],
}

impl Slab {
    /// As many planes at a time as a copy for each element of the kernel fits for; none that see zeros alone.
    fn all(shape: &ConvShape, value_size: usize) -> Vec<Self> {
        let ([planes, height, width], [batch_size, channels, ..]) = (shape.output(), shape.input_dims());
        let [_, _, kernel @ ..] = shape.weight_dims();
        let sizes = [batch_size, channels, height, width, value_size];
        let copies = sizes.into_iter().chain(kernel).fold(1, usize::saturating_mul);
        let at_a_time = (COPIES.max(shape.input_len() * value_size) / copies.max(1)).clamp(1, planes);
        // As even as they come: the autotuner knows fewer shapes.
        let at_a_time = planes.div_ceil(planes.div_ceil(at_a_time));
        let slab = |first: usize| Self::of(shape, first, at_a_time.min(planes - first));
        (0..planes).step_by(at_a_time).filter_map(slab).collect()
    }

    fn of(shape: &ConvShape, first: usize, count: usize) -> Option<Self> {
        let ConvSettings { stride: [stride, ..], dilation: [dilation, ..], padding: [[before, _], ..], .. } =
            shape.settings();
        let (depth, kernel) = (shape.input_dims()[2], shape.weight_dims()[2]);
        // In the padded volume.
        let start = first * stride;
        let end = (first + count - 1) * stride + dilation * (kernel - 1) + 1;
        let (from, to) = (start.max(before), end.min(before + depth));
        let padding = [from.checked_sub(start)?, end.checked_sub(to)?];
        (from < to).then(|| Self { planes: (first, count), inputs: (from - before, to - from), padding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(depth: usize, kernel: usize, stride: usize, padding: [usize; 2]) -> ConvShape {
        let settings =
            ConvSettings { stride: [stride, 1, 1], padding: [padding, [1, 1], [1, 1]], ..ConvSettings::default() };
        ConvShape::new([1, 64, depth, 128, 128], [8, 64, kernel, 3, 3], settings).unwrap()
    }

    /// Each plane of the output once, and the inputs and zeros of a slab give its planes.
    fn check(shape: &ConvShape) -> usize {
        let slabs = Slab::all(shape, 4);
        let mut next = 0;
        let (stride, kernel, depth) = (shape.settings().stride[0], shape.weight_dims()[2], shape.input_dims()[2]);
        for Slab { planes: (first, count), inputs: (from, length), padding: [before, after] } in &slabs {
            assert_eq!(*first, next);
            next += count;
            let room = length + before + after - kernel;
            assert_eq!(room / stride + 1, *count, "planes of a slab");
            assert!(from + length <= depth);
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

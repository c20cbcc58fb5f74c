//! Samples of a segment's outputs, by which the second run is held against the first.
//!
//! A segment that computes something else the second time has wrong gradients. That happens where it draws from Burn's
//! generator while another thread draws from it too, or depends on anything else that has changed in between.

use std::any::Any;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex};
use burn::tensor::DType;
use leanburn_kernels::Stored as _;

use crate::engine::with_element;

/// Values of an output that are looked at.
const SAMPLES: usize = 64;
/// Share of a value up to which two runs may differ: far above rounding, far below a value that was dropped.
const TOLERANCE: f32 = 0.02;

/// Some values of an output, evenly spread; none on a GPU, which would have to be waited for.
pub(super) fn sample<B: Backend>(output: &FloatTensor<B>) -> Vec<f32> {
    let Some(output) = (output as &dyn Any).downcast_ref::<FloatTensor<Flex>>() else { return Vec::new() };
    let dtype = output.dtype();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Vec::new();
    }
    let layout = output.layout();
    let (dims, count) = (layout.shape().to_vec(), layout.num_elements());
    let place = |element: usize| {
        let axes = dims.iter().zip(layout.strides()).rev();
        let (_, offset) = axes.fold((element, layout.start_offset() as isize), |(rest, offset), (size, stride)| {
            (rest / size, offset + (rest % size) as isize * stride)
        });
        offset as usize
    };
    let places = (0..SAMPLES.min(count)).map(|index| place(index * count / SAMPLES.min(count)));
    with_element!(dtype, E => {
        let values = output.storage::<E>();
        places.map(|place| values[place].to_f32()).collect()
    })
}

/// Whether both runs have computed the same.
pub(super) fn agree(first: &[f32], second: &[f32]) -> bool {
    let close =
        |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs());
    first.len() == second.len() && first.iter().zip(second).all(close)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::autodiff::lower_plain;

    fn samples<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        sample::<Flex>(&lower_plain::<Flex>(tensor.into_dispatch()))
    }

    #[test]
    fn samples_are_values_of_the_tensor_wherever_they_lie() {
        let x: Tensor<3> = Tensor::<1, burn::tensor::Int>::arange(0..60, &Device::flex()).float().reshape([3, 4, 5]);
        let expected: Vec<f32> = x.clone().permute([2, 0, 1]).into_data().iter::<f32>().collect();
        assert_eq!(samples(x.clone()), (0..60).map(|value| value as f32).collect::<Vec<_>>());
        assert_eq!(samples(x.clone().permute([2, 0, 1])), expected);
        assert_eq!(samples(x.narrow(1, 1, 2)).len(), 30);
        assert_eq!(samples(Tensor::<2>::zeros([100, 100], &Device::flex())).len(), SAMPLES);
        assert!(samples(Tensor::<2>::zeros([0, 4], &Device::flex())).is_empty());
    }

    #[test]
    fn rounding_agrees_and_dropped_values_do_not() {
        assert!(agree(&[1.0, f32::NAN, 0.0, f32::INFINITY], &[1.001, f32::NAN, 0.0, f32::INFINITY]));
        assert!(!agree(&[1.0, 2.0], &[1.0, 0.0]));
        assert!(!agree(&[1.0], &[1.0, 2.0]));
    }
}

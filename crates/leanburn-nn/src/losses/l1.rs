//! Mean absolute difference.

use burn::tensor::Tensor;
use leanburn_ops::numerics::widen;

use super::shapes::assert_same_shape;

/// `mean |prediction - target|`, in float32.
///
/// # Shapes
///
/// - `prediction`, `target`: any, both the same
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: the difference, in float32.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn l1_loss<const D: usize>(prediction: Tensor<D>, target: Tensor<D>) -> Tensor<1> {
    assert_same_shape(&prediction, &target);
    (widen(prediction) - widen(target)).abs().mean()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    #[test]
    #[should_panic = "found [3] and [1]"]
    fn a_target_is_not_broadcast() {
        l1_loss(Tensor::<1>::ones([3], &Device::flex()), Tensor::ones([1], &Device::flex()));
    }

    #[test]
    fn the_mean_is_taken_in_float32() {
        let device = Device::flex();
        let x = Tensor::<1>::from_floats([1.0, -2.0, 4.0], &device);
        let y = Tensor::<1>::from_floats([0.0, 1.0, 4.5], &device);
        assert_eq!(l1_loss(x.clone(), y.clone()).into_scalar::<f32>(), 1.5);
        let half = l1_loss(x.cast(DType::BF16), y.cast(DType::BF16));
        assert_eq!(half.dtype(), DType::F32);
        assert_eq!(half.into_scalar::<f32>(), 1.5);
    }
}

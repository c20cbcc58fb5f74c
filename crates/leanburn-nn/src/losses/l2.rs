//! Mean squared difference.

use burn::tensor::Tensor;
use leanburn_ops::numerics::widen;

use super::shapes::assert_same_shape;

/// `mean (prediction - target)^2`, in float32.
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
pub fn l2_loss<const D: usize>(prediction: Tensor<D>, target: Tensor<D>) -> Tensor<1> {
    assert_same_shape(&prediction, &target);
    (widen(prediction) - widen(target)).square().mean()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    #[test]
    fn the_mean_is_taken_in_float32() {
        let device = Device::flex();
        let x = Tensor::<1>::from_floats([1.0, -2.0, 4.0], &device);
        let y = Tensor::<1>::from_floats([0.0, 1.0, 6.0], &device);
        assert!((l2_loss(x, y).into_scalar::<f32>() - 14.0 / 3.0).abs() < 1e-6);
        // 300^2 is more than float16 can hold
        let x = Tensor::<1>::from_floats([300.0], &device).cast(DType::F16);
        let y = Tensor::<1>::from_floats([0.0], &device).cast(DType::F16);
        assert_eq!(l2_loss(x, y).into_scalar::<f32>(), 90000.0);
    }
}

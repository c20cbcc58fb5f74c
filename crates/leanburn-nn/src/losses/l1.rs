//! Mean absolute difference.

use burn::tensor::Tensor;

use crate::numerics::widen;

/// `mean |prediction - target|`, in float32.
///
/// # Memory
///
/// Held for backward: the difference, in float32.
pub fn l1_loss<const D: usize>(prediction: Tensor<D>, target: Tensor<D>) -> Tensor<1> {
    (widen(prediction) - widen(target)).abs().mean()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

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

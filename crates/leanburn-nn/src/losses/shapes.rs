//! What a loss compares has one shape.

use burn::tensor::Tensor;

/// Panics unless both tensors have the same shape: a loss that broadcasts hides an error.
pub(super) fn assert_same_shape<const D: usize>(prediction: &Tensor<D>, target: &Tensor<D>) {
    let (prediction, target) = (prediction.dims(), target.dims());
    assert!(prediction == target, "a loss compares tensors of one shape, found {prediction:?} and {target:?}");
}

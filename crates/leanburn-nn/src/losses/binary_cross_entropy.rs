//! Cross-entropy of classes that do not exclude each other.

use burn::tensor::Tensor;
use burn::tensor::activation::{relu, sigmoid};
use leanburn_ops::numerics::widen;

use super::classes::Graded;
use super::shapes::assert_same_shape;

/// `mean -(t log s + (1 - t) log(1 - s))`, `s` the sigmoid of a logit and `t` its target, in float32.
///
/// PyTorch's `binary_cross_entropy_with_logits`.
///
/// # Shapes
///
/// - `logits`, `targets`: `[batch_size, channels, depth, height, width]`, targets from 0 to 1
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: the gradient of the logits in float32, made in forward.
///
/// # Panics
///
/// Panics if the shapes differ.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use leanburn_nn::losses::binary_cross_entropy_loss;
///
/// let zeros = Tensor::<5>::zeros([1, 1, 2, 2, 2], &Device::flex());
/// assert!((binary_cross_entropy_loss(zeros.clone(), zeros).into_scalar::<f32>() - 2f32.ln()).abs() < 1e-6);
/// ```
pub fn binary_cross_entropy_loss(logits: Tensor<5>, targets: Tensor<5>) -> Tensor<1> {
    assert_same_shape(&logits, &targets);
    // a leaf keeps asking for its gradient when it is detached
    let x = widen(logits.clone().detach().set_require_grad(false));
    let targets = widen(targets.detach());
    let gradient = (sigmoid(x.clone()) - targets.clone()) / x.shape().num_elements() as f64;
    let value = (relu(x.clone()) - x.clone() * targets + x.abs().neg().exp().log1p()).mean();
    Graded { value, gradient }.of(logits)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tolerance};

    use super::*;

    /// `torch.nn.functional.binary_cross_entropy_with_logits(x, t)` with its gradient.
    #[test]
    fn loss_and_gradient_are_pytorchs() {
        let device = Device::flex().autodiff();
        let volume = |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([1, 1, 1, 2, 2]);
        let x = volume([0.5, -2.0, 100.0, -100.0]).require_grad();
        let loss = binary_cross_entropy_loss(x.clone(), volume([1.0, 0.25, 1.0, 1.0]));
        let gradient = x.grad(&loss.backward()).unwrap();
        let expected = Tensor::<5>::from_inner(volume([-0.0943852, -0.0326993, 0.0, -0.25]).inner());
        gradient.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(1e-6));
        assert!((loss.into_scalar::<f32>() - 25.275_251).abs() < 1e-5);
    }

    #[test]
    #[should_panic = "a loss compares tensors of one shape"]
    fn targets_are_not_broadcast() {
        let zeros = |dims: [usize; 5]| Tensor::<5>::zeros(dims, &Device::flex());
        binary_cross_entropy_loss(zeros([1, 2, 2, 2, 2]), zeros([1, 1, 2, 2, 2]));
    }
}

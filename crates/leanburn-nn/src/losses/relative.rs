//! Relative L2 error.

use burn::tensor::Tensor;
use leanburn_ops::numerics::widen;

use super::shapes::assert_same_shape;

/// Keeps the gradient finite where a prediction is exact.
const SMALLEST: f64 = 1e-24;

/// The mean over the items of `|prediction - target| / |target|`, in float32: the loss of
/// [Fourier neural operators](https://arxiv.org/abs/2010.08895), to which strong and weak fields count alike.
///
/// An item whose target is zero counts as if its norm were 1e-12.
///
/// # Shapes
///
/// - `prediction`, `target`: `[batch_size, ..]`, both the same
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: the difference, in float32.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn relative_l2_loss<const D: usize>(prediction: Tensor<D>, target: Tensor<D>) -> Tensor<1> {
    assert_same_shape(&prediction, &target);
    let batch_size = prediction.dims()[0];
    let of_items = |x: Tensor<D>| {
        let values = x.shape().num_elements() / batch_size.max(1);
        x.reshape([batch_size, values])
    };
    let (prediction, target) = (of_items(widen(prediction)), of_items(widen(target)));
    let norm = |x: Tensor<2>| (x.square().sum_dim(1) + SMALLEST).sqrt();
    (norm(prediction - target.clone()) / norm(target)).mean()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn each_item_counts_by_its_own_size() {
        let device = Device::flex();
        let tensor = |values: Vec<f32>| Tensor::<2>::from_data(TensorData::new(values, [2, 2]), &device);
        // Errors of 5 of 10 and 0.1 of 1.
        let (x, y) = (tensor(vec![9.0, 12.0, 0.0, 1.1]), tensor(vec![6.0, 8.0, 0.0, 1.0]));
        let loss = relative_l2_loss(x, y.clone()).into_scalar::<f32>();
        assert!((loss - 0.3).abs() < 1e-6, "{loss}");
        let device = Device::flex().autodiff();
        let exact = Tensor::<2>::from_data(y.into_data(), &device).require_grad();
        let gradients = relative_l2_loss(exact.clone(), exact.clone().detach()).backward();
        let gradient = exact.grad(&gradients).unwrap().into_data();
        assert!(gradient.iter::<f32>().all(|value| value == 0.0), "{gradient}");
    }
}

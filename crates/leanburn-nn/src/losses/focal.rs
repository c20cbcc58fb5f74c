//! Cross-entropy that counts what is learned already less.

use burn::config::Config;
use burn::tensor::{Int, Tensor};
use leanburn_common::{Validation, ValidationError};

use super::classes::{Classes, Graded};
use crate::validation::Rules;

/// `mean -(1 - p)^gamma log p` of the voxels' classes, `p` the softmax of the logits, in float32.
///
/// Source: [Focal Loss for Dense Object Detection](https://arxiv.org/abs/1708.02002). With `gamma` 0 it is the cross-entropy.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use leanburn_nn::losses::FocalLoss;
///
/// let device = Device::flex();
/// let labels = Tensor::<4, Int>::ones([1, 2, 2, 2], &device);
/// let loss = FocalLoss::new().forward(Tensor::zeros([1, 2, 2, 2, 2], &device), labels);
/// assert!((loss.into_scalar::<f32>() - 0.25 * 2f32.ln()).abs() < 1e-6);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct FocalLoss {
    /// How much less a voxel counts whose class is likely; 0 for not at all.
    #[config(default = 2.0)]
    pub gamma: f64,
}

/// The least that is left of a probability: powers below one have no slope at 0.
const SMALLEST: f32 = 1e-12;

impl FocalLoss {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.weight("gamma", self.gamma);
        validation.errors()
    }

    /// The loss.
    ///
    /// Labels and panics as of [`cross_entropy_loss`](super::cross_entropy_loss).
    ///
    /// # Shapes
    ///
    /// - `logits`: `[batch_size, classes, depth, height, width]`
    /// - `labels`: `[batch_size, depth, height, width]`, from 0 to `classes - 1`
    /// - output: `[1]`
    ///
    /// # Memory
    ///
    /// Saved for backward: the gradient of the logits, one volume of theirs in float32, made in forward.
    pub fn forward(&self, logits: Tensor<5>, labels: Tensor<4, Int>) -> Tensor<1> {
        let (classes, log_loss) = Classes::with_log_loss(&logits, labels);
        let likely = log_loss.clone().neg().exp();
        let left = (likely.clone().neg() + 1.0).clamp_min(SMALLEST);
        let focus = left.clone().powf_scalar(self.gamma as f32);
        let value = (focus.clone() * log_loss.clone()).mean();
        // d loss / d log p, times d log p / d logits = one_hot - probabilities
        let slope = focus.clone() + likely * (focus / left) * log_loss * self.gamma;
        Graded { value, gradient: classes.cross_entropy_gradient() * slope }.of(logits)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::losses::classes::samples::{labels, logits};
    use crate::losses::cross_entropy_loss;
    use crate::validation::keys;

    /// Against the formula of Burn's operations, which autodiff differentiates.
    #[test]
    fn loss_and_gradient_are_those_of_the_formula() {
        let device = Device::flex().autodiff();
        for gamma in [0.0, 0.5, 1.0, 2.0, 3.5] {
            let x = logits(&device).require_grad();
            let one_hot: Tensor<5> = labels(&device).one_hot::<5>(3).float().permute([0, 4, 1, 2, 3]);
            let logs = burn::tensor::activation::log_softmax(x.clone(), 1);
            let of_class = (logs * one_hot).sum_dim(1);
            let expected = ((of_class.clone().exp().neg() + 1.0).powf_scalar(gamma as f32) * of_class.neg()).mean();
            let found = FocalLoss::new().with_gamma(gamma).forward(x.clone(), labels(&device));
            let gradient = |loss: Tensor<1>| x.grad(&loss.backward()).unwrap();
            let difference = (gradient(found.clone()) - gradient(expected.clone())).abs().max().into_scalar::<f32>();
            assert!(difference < 1e-7, "gamma {gamma}: gradients differ by {difference}");
            let (found, expected) = (found.into_scalar::<f32>(), expected.into_scalar::<f32>());
            assert!((found - expected).abs() < 1e-5, "gamma {gamma}: {found} {expected}");
        }
    }

    #[test]
    fn without_focus_it_is_the_cross_entropy_and_certainty_is_finite() {
        let device = Device::flex();
        let x = logits(&device);
        let plain = FocalLoss::new().with_gamma(0.0).forward(x.clone(), labels(&device)).into_scalar::<f32>();
        let expected = cross_entropy_loss(x.clone(), labels(&device)).into_scalar::<f32>();
        assert!((plain - expected).abs() < 1e-6, "{plain} {expected}");
        let x = Tensor::from_inner(x.sign() * 30_000.0).require_grad();
        for gamma in [0.5, 2.0] {
            let loss = FocalLoss::new().with_gamma(gamma).forward(x.clone(), labels(&x.device()));
            let gradient = x.grad(&loss.backward()).unwrap();
            assert!(
                loss.into_scalar::<f32>().is_finite() && gradient.sum().into_scalar::<f32>().is_finite(),
                "{gamma}"
            );
        }
    }

    #[test]
    fn gamma_is_not_negative() {
        assert!(FocalLoss::new().validate().is_empty());
        assert_eq!(keys(FocalLoss::new().with_gamma(-1.0).validate()), ["gamma"]);
    }
}

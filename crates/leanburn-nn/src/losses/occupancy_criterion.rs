//! Classes of the ground, most of them rare and much of the ground unseen.

use burn::tensor::Tensor;
use burn::tensor::activation::{relu, sigmoid};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::widen;
use serde::{Deserialize, Serialize};

use super::classes::Graded;
use super::shapes::assert_same_shape;
use crate::validation::Rules;

/// How much more a cell of a class counts than one that is not of it; `p` is how often the class occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// `1 / sqrt(p)`.
    #[default]
    SqrtInverse,
    /// `1 / p`.
    Inverse,
    /// 1.
    Equal,
}

/// The balanced cross-entropy of what is seen, and of what is not seen the cross-entropy with how often a class occurs.
///
/// `mean w (-t log s - (1 - t) log(1 - s))`, `s` the sigmoid of a logit. In a cell that is seen, `t` is 1 where it is of the class, and `w` then
/// [more than one](ClassWeights). In one that is not, `t` is the prior, and `w` the weight of uncertainty. Source: pyramid occupancy networks,
/// [Roddick and Cipolla](https://arxiv.org/abs/2003.13402).
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_nn::losses::OccupancyCriterion;
///
/// let zeros = Tensor::<5>::zeros([1, 2, 1, 3, 3], &Device::flex());
/// let seen = Tensor::<5>::ones([1, 1, 1, 3, 3], &Device::flex());
/// let loss = OccupancyCriterion::new(vec![0.5, 0.01]).forward(zeros.clone(), zeros, seen);
/// assert!((loss.into_scalar::<f32>() - 2f32.ln()).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OccupancyCriterion {
    priors: Vec<f64>,
    class_weights: ClassWeights,
    uncertainty_weight: f64,
}

impl OccupancyCriterion {
    /// For classes that occur so often, with the weights of the original: 0.001 for uncertainty.
    pub fn new(priors: Vec<f64>) -> Self {
        Self { priors, class_weights: ClassWeights::default(), uncertainty_weight: 1e-3 }
    }

    /// The same with other weights of the classes.
    #[must_use]
    pub fn with_class_weights(self, class_weights: ClassWeights) -> Self {
        Self { class_weights, ..self }
    }

    /// The same with another weight of what is not seen.
    #[must_use]
    pub fn with_uncertainty_weight(self, uncertainty_weight: f64) -> Self {
        Self { uncertainty_weight, ..self }
    }

    /// Everything that is wrong with the numbers.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let is_sound = !self.priors.is_empty() && self.priors.iter().all(|prior| *prior > 0.0 && *prior < 1.0);
        let help = "write how often each class occurs, such as 0.05 where it is not known";
        let expected = "a share above 0 and below 1 for each class";
        validation.check(is_sound, "priors", expected, format!("{:?}", self.priors), help);
        validation.weight("uncertainty_weight", self.uncertainty_weight);
        validation.errors()
    }

    /// The loss.
    ///
    /// # Shapes
    ///
    /// - `logits`, `labels`: `[batch_size, classes, 1, rows, columns]`, labels 0 or 1; a cell may be of several classes
    /// - `seen`: `[batch_size, 1, 1, rows, columns]`, 0 or 1
    /// - output: `[1]`
    ///
    /// # Memory
    ///
    /// Saved for backward: the gradient of the logits in float32, made in forward.
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ, there are other classes than priors, or with the [errors](Self::validate).
    pub fn forward(&self, logits: Tensor<5>, labels: Tensor<5>, seen: Tensor<5>) -> Tensor<1> {
        panic_if_invalid("OccupancyCriterion", &self.validate());
        assert_same_shape(&logits, &labels);
        let [batch_size, classes, depth, rows, columns] = logits.dims();
        assert!(classes == self.priors.len(), "expected logits of {} classes, found {classes}", self.priors.len());
        assert!(
            seen.dims() == [batch_size, 1, depth, rows, columns],
            "expected what is seen of {batch_size} items of {depth} x {rows} x {columns}, found {:?}",
            seen.dims()
        );
        // a leaf keeps asking for its gradient when it is detached
        let x = widen(logits.clone().detach().set_require_grad(false));
        let (labels, seen) = (widen(labels), widen(seen));
        let of_classes = |value: &dyn Fn(f64) -> f64| -> Tensor<5> {
            let values: Vec<f32> = self.priors.iter().map(|prior| value(*prior) as f32).collect();
            Tensor::<1>::from_floats(values.as_slice(), &x.device()).reshape([1, classes, 1, 1, 1])
        };
        let unseen = seen.clone().neg() + 1.0;
        let more = of_classes(&|prior| self.class_weight(prior) - 1.0);
        let weights = (labels.clone() * more + 1.0) * seen.clone() + unseen.clone() * self.uncertainty_weight;
        let targets = labels * seen + of_classes(&|prior| prior) * unseen;
        let weights = weights / x.shape().num_elements() as f64;
        let gradient = (sigmoid(x.clone()) - targets.clone()) * weights.clone();
        let value = ((relu(x.clone()) - x.clone() * targets + x.abs().neg().exp().log1p()) * weights).sum();
        Graded { value, gradient }.of(logits)
    }

    fn class_weight(&self, prior: f64) -> f64 {
        match self.class_weights {
            ClassWeights::SqrtInverse => prior.powf(-0.5),
            ClassWeights::Inverse => 1.0 / prior,
            ClassWeights::Equal => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::losses::binary_cross_entropy_loss;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        assert!(OccupancyCriterion::new(vec![0.5]).validate().is_empty());
        assert_eq!(keys(OccupancyCriterion::new(vec![0.5, 0.0]).validate()), ["priors"]);
        let negative = OccupancyCriterion::new(vec![0.5]).with_uncertainty_weight(-1.0);
        assert_eq!(keys(negative.validate()), ["uncertainty_weight"]);
    }

    /// With equal weights it is the plain cross-entropy of what is seen; of the unseen, that with the priors.
    #[test]
    fn weights_are_of_classes_and_of_what_is_unseen() {
        let device = Device::flex();
        let volume = |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([1, 2, 1, 1, 2]);
        let (logits, labels) = (volume([0.5, -2.0, 3.0, 0.0]), volume([1.0, 0.0, 0.0, 1.0]));
        let all = |value: f64| Tensor::<5>::full([1, 1, 1, 1, 2], value, &device);
        let plain = binary_cross_entropy_loss(logits.clone(), labels.clone()).into_scalar::<f32>();
        let of = |weights, seen| {
            let criterion = OccupancyCriterion::new(vec![0.25, 0.04]).with_class_weights(weights);
            criterion.forward(logits.clone(), labels.clone(), seen).into_scalar::<f32>()
        };
        assert!((of(ClassWeights::Equal, all(1.0)) - plain).abs() < 1e-6);
        let priors = volume([0.25, 0.25, 0.04, 0.04]);
        let unseen = 1e-3 * binary_cross_entropy_loss(logits.clone(), priors).into_scalar::<f32>();
        assert!((of(ClassWeights::Inverse, all(0.0)) - unseen).abs() < 1e-8);
        // one label of each class: twice and five times as much
        let [first, second] = [(-0.5f32).exp().ln_1p(), 2f32.ln()];
        let expected = plain + (first + 4.0 * second) / 4.0;
        assert!((of(ClassWeights::SqrtInverse, all(1.0)) - expected).abs() < 1e-6);
    }
}

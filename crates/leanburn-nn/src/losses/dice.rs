//! Overlap of predicted and true classes, alone and with cross-entropy.

use burn::config::Config;
use burn::tensor::{Int, Tensor};
use leanburn_common::{Validation, ValidationError};

use super::classes::{Classes, Graded};
use crate::validation::Rules;

/// One minus the Dice coefficient of probabilities and labels, averaged over items and classes, in float32.
///
/// `1 - (2 sum(p t) + smooth_numerator) / (sum(p) + sum(t) + smooth_denominator)`, `p` the softmax of the logits, `t` one for
/// the label's class and zero else, sums over the volume of an item. Source: [V-Net](https://arxiv.org/abs/1606.04797).
/// MONAI's `DiceLoss(softmax=True, to_onehot_y=True)`.
#[derive(Config, Debug, PartialEq)]
pub struct DiceLoss {
    /// Whether class 0 counts.
    #[config(default = true)]
    pub include_background: bool,
    /// Whether the denominator sums squares, as in V-Net.
    #[config(default = false)]
    pub squared_predictions: bool,
    /// Added to the numerator.
    #[config(default = 1e-5)]
    pub smooth_numerator: f64,
    /// Added to the denominator.
    #[config(default = 1e-5)]
    pub smooth_denominator: f64,
}

impl DiceLoss {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.weight("smooth_numerator", self.smooth_numerator);
        validation.positive("smooth_denominator", self.smooth_denominator, "use 1e-5");
        validation.errors()
    }

    /// The loss.
    ///
    /// Shapes, labels, memory and panics as of [`cross_entropy_loss`](super::cross_entropy_loss).
    ///
    /// # Shapes
    ///
    /// - `logits`: `[batch_size, classes, depth, height, width]`
    /// - `labels`: `[batch_size, depth, height, width]`, from 0 to `classes - 1`
    /// - output: `[1]`
    pub fn forward(&self, logits: Tensor<5>, labels: Tensor<4, Int>) -> Tensor<1> {
        self.of(&Classes::of(&logits, labels)).of(logits)
    }

    fn of(&self, classes: &Classes) -> Graded {
        let Classes { probabilities, one_hot, .. } = classes;
        let [batch_size, count, ..] = probabilities.dims();
        let counted = if self.include_background { count } else { count - 1 };
        let share = |class: usize| if class == 0 && !self.include_background { 0.0 } else { 1.0 };
        let shares: Vec<f64> = (0..count).map(|class| share(class) / (batch_size * counted) as f64).collect();
        let shares = Tensor::<1>::from_data(shares.as_slice(), (&probabilities.device(), probabilities.dtype()));
        let shares: Tensor<5> = shares.reshape([1, count, 1, 1, 1]);

        let predicted = match self.squared_predictions {
            true => classes.over_volume(probabilities.clone().square()),
            false => classes.over_volume(probabilities.clone()),
        };
        let overlap = classes.over_volume(probabilities.clone() * one_hot.clone());
        let numerator = overlap * 2.0 + self.smooth_numerator;
        let denominator = predicted + classes.over_volume(one_hot.clone()) + self.smooth_denominator;
        let coefficient = numerator / denominator.clone();
        let value = ((coefficient.clone().neg() + 1.0) * shares.clone()).sum();

        // d value / d p = shares / denominator (coefficient d denominator / d p - 2 t)
        let shares = shares / denominator;
        let of_denominator = match self.squared_predictions {
            true => probabilities.clone() * (coefficient * shares.clone() * 2.0),
            false => (coefficient * shares.clone()).expand(probabilities.dims()),
        };
        let gradient = of_denominator - one_hot.clone() * (shares * 2.0);
        Graded { value, gradient: classes.through_softmax(gradient) }
    }
}

/// Dice loss plus cross-entropy, each times its weight: MONAI's `DiceCELoss(softmax=True, to_onehot_y=True)`.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use leanburn_nn::losses::DiceCeLoss;
///
/// let device = Device::flex();
/// let labels = Tensor::<4, Int>::from_data([[[[0, 1], [1, 0]]]], &device);
/// let certain = labels.clone().float().mul_scalar(40.0).sub_scalar(20.0).unsqueeze_dim::<5>(1);
/// let logits = Tensor::cat(vec![-certain.clone(), certain], 1);
/// assert!(DiceCeLoss::new().forward(logits, labels).into_scalar::<f32>() < 1e-6);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct DiceCeLoss {
    /// The Dice loss.
    #[config(default = "DiceLoss::new()")]
    pub dice: DiceLoss,
    /// Weight of the Dice loss.
    #[config(default = 1.0)]
    pub dice_weight: f64,
    /// Weight of the cross-entropy.
    #[config(default = 1.0)]
    pub cross_entropy_weight: f64,
}

impl DiceCeLoss {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("dice", self.dice.validate());
        validation.weight("dice_weight", self.dice_weight);
        validation.weight("cross_entropy_weight", self.cross_entropy_weight);
        validation.errors()
    }

    /// The loss.
    ///
    /// Labels, memory and panics as of [`cross_entropy_loss`](super::cross_entropy_loss).
    ///
    /// # Shapes
    ///
    /// - `logits`: `[batch_size, classes, depth, height, width]`
    /// - `labels`: `[batch_size, depth, height, width]`, from 0 to `classes - 1`
    /// - output: `[1]`
    pub fn forward(&self, logits: Tensor<5>, labels: Tensor<4, Int>) -> Tensor<1> {
        let (classes, value) = Classes::with_cross_entropy(&logits, labels);
        let dice = self.dice.of(&classes).scale(self.dice_weight);
        let cross_entropy = Graded { value, gradient: classes.cross_entropy_gradient() };
        dice.plus(cross_entropy.scale(self.cross_entropy_weight)).of(logits)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Distribution};

    use super::*;
    use crate::losses::classes::samples::{labels, logits};
    use crate::losses::cross_entropy_loss;
    use crate::validation::keys;

    /// Differences of the loss against the gradient that is made with it.
    #[test]
    fn gradients_are_those_of_the_loss() {
        let device = Device::flex().autodiff();
        let at = |x: Tensor<5>| DiceCeLoss::new().forward(x, labels(&device));
        let x = logits(&device).require_grad();
        let gradient = x.grad(&at(x.clone()).backward()).unwrap();
        let direction = Tensor::<5>::random(x.dims(), Distribution::Normal(0.0, 1.0), &device).inner();
        let slope = (gradient * direction.clone()).sum().into_scalar::<f32>();
        let step = Tensor::from_inner(direction * 1e-2);
        let up = at(x.clone() + step.clone()).into_scalar::<f32>();
        let difference = (up - at(x - step).into_scalar::<f32>()) / 2e-2;
        assert!((difference - slope).abs() < 1e-3 * slope.abs().max(0.1), "{difference} {slope}");
    }

    #[test]
    fn extreme_logits_of_any_dtype_are_finite() {
        let device = Device::flex();
        let loss = |x: Tensor<5>| cross_entropy_loss(x, labels(&device)).into_scalar::<f32>();
        let extreme = loss(logits(&device).sign() * 30_000.0);
        assert!(extreme.is_finite() && extreme > 1_000.0, "{extreme}");
        assert!(loss(logits(&device).cast(DType::F16) * 1000.0).is_finite());
    }

    #[test]
    #[should_panic = "found [2, 1, 3, 4]"]
    fn labels_are_not_broadcast() {
        let device = Device::flex();
        DiceLoss::new().forward(logits(&device), labels(&device).narrow(1, 0, 1));
    }

    #[test]
    fn each_error_is_found() {
        assert!(DiceCeLoss::new().validate().is_empty());
        let dice = DiceLoss::new().with_smooth_numerator(-1.0).with_smooth_denominator(0.0);
        let config = DiceCeLoss::new().with_dice(dice).with_dice_weight(-1.0).with_cross_entropy_weight(f64::NAN);
        let expected = ["dice.smooth_numerator", "dice.smooth_denominator", "dice_weight", "cross_entropy_weight"];
        assert_eq!(keys(config.validate()), expected);
    }
}

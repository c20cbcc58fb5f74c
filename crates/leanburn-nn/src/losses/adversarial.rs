//! Losses of generator and discriminator on the logits of patch discriminators.

use burn::tensor::{Tensor, activation};
use leanburn_ops::numerics::widen;
use serde::{Deserialize, Serialize};

/// How logits are compared with the label: real is 1, fake is 0 (for the hinge: -1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdversarialCriterion {
    /// `(logit - label)^2`. Source: [Least Squares GAN](https://arxiv.org/abs/1611.04076).
    #[default]
    LeastSquares,
    /// `max(0, 1 - label * tanh(logit))`. Source: [Geometric GAN](https://arxiv.org/abs/1705.02894).
    Hinge,
    /// Cross entropy of the sigmoid of the logits. Source: [GAN](https://arxiv.org/abs/1406.2661).
    Bce,
}

/// MONAI's `PatchAdversarialLoss`, averaged over elements and scales, in float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchAdversarialLoss {
    /// How logits are compared with the label.
    pub criterion: AdversarialCriterion,
    /// Whether a leaky ReLU of slope 0.05 precedes the least squares, as in MONAI. Without effect on the others.
    pub least_squares_activation: bool,
}

impl Default for PatchAdversarialLoss {
    fn default() -> Self {
        Self::new(AdversarialCriterion::default())
    }
}

impl PatchAdversarialLoss {
    /// The loss with MONAI's defaults.
    pub fn new(criterion: AdversarialCriterion) -> Self {
        Self { criterion, least_squares_activation: true }
    }

    /// How well the logits agree with the label, averaged over scales.
    ///
    /// # Shapes
    ///
    /// - `logits`: one `[batch_size, channels, depth, height, width]` for each scale
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// Panics if there is no scale.
    pub fn score(&self, logits: &[Tensor<5>], is_real: bool) -> Tensor<1> {
        assert!(!logits.is_empty(), "an adversarial loss needs the logits of at least one scale");
        let scores = logits.iter().map(|logits| self.score_one(widen(logits.clone()), is_real));
        let total = scores.reduce(|total, score| total + score).expect("there is at least one scale");
        total / logits.len() as f64
    }

    fn score_one(&self, logits: Tensor<5>, is_real: bool) -> Tensor<1> {
        match self.criterion {
            AdversarialCriterion::LeastSquares => {
                let logits = match self.least_squares_activation {
                    true => activation::leaky_relu(logits, 0.05),
                    false => logits,
                };
                (logits - f64::from(u8::from(is_real))).square().mean()
            }
            AdversarialCriterion::Hinge => {
                let agreement = activation::tanh(if is_real { logits } else { -logits });
                -(agreement - 1.0).clamp_max(0.0).mean()
            }
            AdversarialCriterion::Bce => -activation::log_sigmoid(if is_real { logits } else { -logits }).mean(),
        }
    }

    /// What the generator minimises: the discriminator should take its output for real.
    ///
    /// Shapes and panics as of [`score`](Self::score).
    pub fn generator(&self, fake: &[Tensor<5>]) -> Tensor<1> {
        self.score(fake, true)
    }

    /// What the discriminator minimises: half the sum of the scores on fake and on real volumes.
    ///
    /// Shapes and panics as of [`score`](Self::score).
    pub fn discriminator(&self, fake: &[Tensor<5>], real: &[Tensor<5>]) -> Tensor<1> {
        (self.score(fake, false) + self.score(real, true)) * 0.5
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    fn logits(values: [f32; 2]) -> Tensor<5> {
        Tensor::<1>::from_floats(values, &Device::flex()).reshape([1, 1, 1, 1, 2])
    }

    fn close(loss: Tensor<1>, expected: f32) {
        let loss = loss.into_scalar::<f32>();
        assert!((loss - expected).abs() < 1e-6, "{loss} {expected}");
    }

    #[test]
    fn least_squares() {
        let loss = PatchAdversarialLoss::default();
        let x = [logits([2.0, -1.0])];
        close(loss.score(&x, true), (1.0 + 1.05f32.powi(2)) / 2.0);
        close(loss.score(&x, false), (4.0 + 0.05f32.powi(2)) / 2.0);
        let plain = PatchAdversarialLoss { least_squares_activation: false, ..loss };
        close(plain.score(&x, true), (1.0 + 4.0) / 2.0);
        close(plain.score(&x, false), (4.0 + 1.0) / 2.0);
    }

    #[test]
    fn hinge() {
        let loss = PatchAdversarialLoss::new(AdversarialCriterion::Hinge);
        let x = [logits([2.0, -1.0])];
        let (a, b) = (2f32.tanh(), (-1f32).tanh());
        close(loss.score(&x, true), (1.0 - a + 1.0 - b) / 2.0);
        close(loss.score(&x, false), (1.0 + a + 1.0 + b) / 2.0);
    }

    #[test]
    fn cross_entropy() {
        let loss = PatchAdversarialLoss::new(AdversarialCriterion::Bce);
        let x = [logits([2.0, -1.0])];
        let p = |x: f32| 1.0 / (1.0 + (-x).exp());
        close(loss.score(&x, true), -(p(2.0).ln() + p(-1.0).ln()) / 2.0);
        close(loss.score(&x, false), -((1.0 - p(2.0)).ln() + (1.0 - p(-1.0)).ln()) / 2.0);
        let extreme = loss.score(&[logits([-500.0, -500.0])], true).into_scalar::<f32>();
        assert!((extreme - 500.0).abs() < 1e-2, "{extreme}");
    }

    #[test]
    fn scales_are_averaged_and_sides_are_as_named() {
        let loss = PatchAdversarialLoss { least_squares_activation: false, ..Default::default() };
        let (fake, real) = ([logits([0.0, 0.0]), logits([2.0, 2.0])], [logits([1.0, 1.0])]);
        close(loss.generator(&fake), (1.0 + 1.0) / 2.0);
        close(loss.discriminator(&fake, &real), (0.0 + 4.0) / 2.0 * 0.5);
        let half = fake.map(|logits| logits.cast(DType::F16));
        assert_eq!(loss.generator(&half).dtype(), DType::F32);
    }
}

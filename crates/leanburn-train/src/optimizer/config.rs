//! An optimizer with its constants.

use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use super::constants::OptimizerConstants;
use super::kind::OptimizerKind;

const BELOW_ONE: &str = "a number of at least 0 and below 1";
const NOT_NEGATIVE: &str = "a finite number of at least 0";
const CORRECT: &str = "correct this number";

/// An optimizer with its constants. Defaults are PyTorch's (Burn's epsilon would be 1e-5), and those of the papers for Adafactor,
/// Adan, LAMB and Lion, which PyTorch has not or has otherwise.
///
/// # Example
///
/// ```
/// use leanburn_train::{OptimizerConfig, OptimizerKind};
///
/// let config = OptimizerConfig::new(OptimizerKind::Sgd).with_momentum(0.9).with_nesterov(true);
/// assert!(config.validate().is_empty());
/// let wrong = OptimizerConfig::new(OptimizerKind::Adam).with_momentum(0.9).validate();
/// assert_eq!(wrong[0].to_string(), "momentum: expected none, which adam has not, found 0.9");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptimizerConfig {
    /// Which optimizer.
    pub kind: OptimizerKind,
    /// Decay of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the denominator of the update.
    pub epsilon: f64,
    /// Weight decay, 0 for none.
    pub weight_decay: f64,
    /// What only some optimizers have.
    #[serde(flatten)]
    pub constants: OptimizerConstants,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self::new(OptimizerKind::default())
    }
}

impl OptimizerConfig {
    /// An optimizer with its default constants.
    pub fn new(kind: OptimizerKind) -> Self {
        let betas = match kind {
            OptimizerKind::Adan => [0.98, 0.92],
            OptimizerKind::Lion => [0.9, 0.99],
            _ => [0.9, 0.999],
        };
        let epsilon = match kind {
            OptimizerKind::AdaGrad => 1e-10,
            OptimizerKind::Lamb => 1e-6,
            _ => 1e-8,
        };
        let weight_decay = if kind == OptimizerKind::AdamW { 0.01 } else { 0.0 };
        Self { kind, betas, epsilon, weight_decay, constants: OptimizerConstants::default() }
    }

    /// Everything that is wrong with the constants.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        self.check_foreign(&mut validation);
        let OptimizerConstants { momentum, alpha, lr_decay, beta_3, .. } = self.constants;
        let [beta_1, beta_2] = self.betas.map(Some);
        let shares =
            [("betas[0]", beta_1), ("betas[1]", beta_2), ("beta_3", beta_3), ("alpha", alpha), ("momentum", momentum)];
        for (key, share) in shares.into_iter().filter_map(|(key, share)| Some((key, share?))) {
            let sound = share >= 0.0 && (share as f32) < 1.0; // Burn computes with float32
            let help = if key.starts_with("betas") { "PyTorch's are 0.9 and 0.999" } else { CORRECT };
            validation.check(sound, key, BELOW_ONE, share, help);
        }
        let rest = [("epsilon", Some(self.epsilon)), ("weight_decay", Some(self.weight_decay)), ("lr_decay", lr_decay)];
        for (key, value) in rest.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            validation.check(value.is_finite() && value >= 0.0, key, NOT_NEGATIVE, value, CORRECT);
        }
        let sound = !self.constants.nesterov() || self.constants.momentum() > 0.0;
        let help = "set `momentum`, 0.9 for example, or leave `nesterov` out";
        validation.check_together(sound, &["momentum"], "nesterov", "false without momentum", "true", help);
        validation.errors()
    }

    /// An error of each constant that was given and that the optimizer has not.
    fn check_foreign(&self, validation: &mut Validation) {
        let (kind, own) = (self.kind, self.kind.constants());
        let default = Self::new(kind);
        let OptimizerConstants { momentum, nesterov, amsgrad, centered, alpha, lr_decay, beta_3 } = self.constants;
        let number = |value: Option<f64>| value.map(|value| value.to_string());
        let flag = |value: Option<bool>| value.map(|value| value.to_string());
        let given = [
            ("betas", (self.betas != default.betas).then(|| format!("{:?}", self.betas))),
            ("epsilon", (self.epsilon != default.epsilon).then(|| self.epsilon.to_string())),
            ("momentum", number(momentum)),
            ("nesterov", flag(nesterov)),
            ("amsgrad", flag(amsgrad)),
            ("centered", flag(centered)),
            ("alpha", number(alpha)),
            ("lr_decay", number(lr_decay)),
            ("beta_3", number(beta_3)),
        ];
        for (key, found) in given {
            let Some(found) = found.filter(|_| !own.contains(&key)) else { continue };
            let help = format!("remove `{key}`; the constants of {kind} are {}", own.join(", "));
            validation.check_together(false, &[], key, &format!("none, which {kind} has not"), found, help);
        }
    }

    /// With these decays of the first and the second moment.
    #[must_use]
    pub fn with_betas(mut self, betas: [f64; 2]) -> Self {
        self.betas = betas;
        self
    }

    /// With this added to the denominator of the update.
    #[must_use]
    pub fn with_epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// With this weight decay.
    #[must_use]
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// With these constants that only some optimizers have.
    #[must_use]
    pub fn with_constants(mut self, constants: OptimizerConstants) -> Self {
        self.constants = constants;
        self
    }

    /// With this share of the last update in the next.
    #[must_use]
    pub fn with_momentum(mut self, momentum: f64) -> Self {
        self.constants.momentum = Some(momentum);
        self
    }

    /// With Nesterov's momentum.
    #[must_use]
    pub fn with_nesterov(mut self, nesterov: bool) -> Self {
        self.constants.nesterov = Some(nesterov);
        self
    }

    /// With the denominator of the largest second moment so far.
    #[must_use]
    pub fn with_amsgrad(mut self, amsgrad: bool) -> Self {
        self.constants.amsgrad = Some(amsgrad);
        self
    }

    /// With squared gradients about their mean.
    #[must_use]
    pub fn with_centered(mut self, centered: bool) -> Self {
        self.constants.centered = Some(centered);
        self
    }
}

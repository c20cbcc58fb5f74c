//! How a module is trained, as a value.

use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::loss_scale::LossScale;
use crate::optimizer::OptimizerConfig;
use crate::schedule::ScheduleConfig;

const BELOW_ONE: &str = "a number of at least 0 and below 1";

/// How a module is trained.
///
/// # Example
///
/// ```
/// use leanburn_train::{LearnerConfig, ScheduleConfig, ScheduleKind};
///
/// let schedule = ScheduleConfig::new(2e-3).with_kind(ScheduleKind::Cosine).with_max_steps(100);
/// let config = LearnerConfig::new(schedule).with_max_grad_norm(Some(1.0));
/// assert_eq!(config.average_decay, None);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnerConfig {
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The learning rate over time.
    pub schedule: ScheduleConfig,
    /// Factor of the loss before backward.
    pub loss_scale: LossScale,
    /// Gradients are clipped to this global norm.
    pub max_grad_norm: Option<f64>,
    /// Decay of an average of the weights, in addition to them.
    pub average_decay: Option<f64>,
}

/// Adam at a constant rate of 1e-4; no loss scale, no clipping, no average of weights.
impl Default for LearnerConfig {
    fn default() -> Self {
        Self::new(ScheduleConfig::default())
    }
}

impl LearnerConfig {
    /// Adam with a schedule; no loss scale, no clipping, no average of weights.
    pub fn new(schedule: ScheduleConfig) -> Self {
        Self {
            optimizer: OptimizerConfig::default(),
            schedule,
            loss_scale: LossScale::NONE,
            max_grad_norm: None,
            average_decay: None,
        }
    }

    /// Everything that is wrong with the numbers but the learning rate, which [`ScheduleConfig::init`] checks.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("optimizer", self.optimizer.validate());
        validation.extend_below("loss_scale", self.loss_scale.validate());
        if let Some(norm) = self.max_grad_norm {
            let help = "use None for no clipping";
            validation.check(norm.is_finite() && norm > 0.0, "max_grad_norm", "a finite number above 0", norm, help);
        }
        if let Some(decay) = self.average_decay {
            let help = "use 0.999, or None for no average";
            validation.check((0.0..1.0).contains(&decay), "average_decay", BELOW_ONE, decay, help);
        }
        validation.errors()
    }

    /// With this optimizer.
    #[must_use]
    pub fn with_optimizer(mut self, optimizer: OptimizerConfig) -> Self {
        self.optimizer = optimizer;
        self
    }

    /// With this factor of the loss before backward.
    #[must_use]
    pub fn with_loss_scale(mut self, loss_scale: LossScale) -> Self {
        self.loss_scale = loss_scale;
        self
    }

    /// With gradients clipped to this global norm.
    #[must_use]
    pub fn with_max_grad_norm(mut self, max_grad_norm: Option<f64>) -> Self {
        self.max_grad_norm = max_grad_norm;
        self
    }

    /// With an average of the weights of this decay.
    #[must_use]
    pub fn with_average_decay(mut self, average_decay: Option<f64>) -> Self {
        self.average_decay = average_decay;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::OptimizerKind;

    fn keys(config: &LearnerConfig) -> Vec<String> {
        config.validate().into_iter().map(|error| error.key).collect()
    }

    #[test]
    fn every_number_is_checked() {
        let valid = LearnerConfig::default();
        assert!(keys(&valid).is_empty());
        let all = LearnerConfig::default()
            .with_optimizer(
                OptimizerConfig::new(OptimizerKind::AdamW)
                    .with_betas([1.0, f64::NAN])
                    .with_epsilon(-1e-8)
                    .with_weight_decay(f64::INFINITY),
            )
            .with_loss_scale(LossScale::Static(0.0))
            .with_max_grad_norm(Some(0.0))
            .with_average_decay(Some(1.5));
        let expected = [
            "optimizer.betas[0]",
            "optimizer.betas[1]",
            "optimizer.epsilon",
            "optimizer.weight_decay",
            "loss_scale.static",
            "max_grad_norm",
            "average_decay",
        ];
        assert_eq!(keys(&all), expected);
        let dynamic = LossScale::Dynamic { initial: 0.0, growth: 0.5, back_off: 1.0, growth_interval: 0 };
        let expected = ["initial", "growth", "back_off", "growth_interval"].map(|key| format!("loss_scale.{key}"));
        assert_eq!(keys(&valid.with_loss_scale(dynamic)), expected);
    }
}

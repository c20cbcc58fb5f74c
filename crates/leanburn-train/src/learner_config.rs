//! How a module is trained, as a value.

use serde::{Deserialize, Serialize};

use crate::loss_scale::LossScale;
use crate::optimizer::OptimizerConfig;
use crate::schedule::ScheduleConfig;

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

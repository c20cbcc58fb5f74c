//! Constants that some optimizers have.

use serde::{Deserialize, Serialize};

/// Constants that some optimizers have and others do not. `None` is the optimizer's default, and the only value where
/// [it has no such constant](crate::OptimizerKind::constants).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OptimizerConstants {
    /// `sgd`, `rmsprop`: share of the last update in the next. Default: 0, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// `sgd`: whether the momentum is Nesterov's. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nesterov: Option<bool>,
    /// `adam`, `adamw`: whether the denominator is that of the largest second moment so far
    /// ([AMSGrad](https://arxiv.org/abs/1904.09237)). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amsgrad: Option<bool>,
    /// `rmsprop`: whether squared gradients are those of the difference from their mean. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centered: Option<bool>,
    /// `rmsprop`: decay of the mean of squared gradients. Default: 0.99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// `adagrad`: the learning rate is divided by `1 + lr_decay * step`. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_decay: Option<f64>,
    /// `adan`: decay of the second moment; `betas` are those of the gradient and of its differences. Default: 0.99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta_3: Option<f64>,
}

impl OptimizerConstants {
    pub(super) fn momentum(&self) -> f64 {
        self.momentum.unwrap_or(0.0)
    }

    pub(super) fn nesterov(&self) -> bool {
        self.nesterov.unwrap_or(false)
    }

    pub(super) fn amsgrad(&self) -> bool {
        self.amsgrad.unwrap_or(false)
    }

    pub(super) fn centered(&self) -> bool {
        self.centered.unwrap_or(false)
    }

    pub(super) fn alpha(&self) -> f64 {
        self.alpha.unwrap_or(0.99)
    }

    pub(super) fn lr_decay(&self) -> f64 {
        self.lr_decay.unwrap_or(0.0)
    }

    pub(super) fn beta_3(&self) -> f64 {
        self.beta_3.unwrap_or(0.99)
    }
}

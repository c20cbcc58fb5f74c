//! The optimizers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An optimizer of Burn: all that train by a step and take weights of any shape. (L-BFGS evaluates the loss several times a step, Muon
/// takes matrices alone.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// [Adam](https://arxiv.org/abs/1412.6980); weight decay is added to the gradient.
    #[default]
    Adam,
    /// [AdamW](https://arxiv.org/abs/1711.05101); weight decay apart from the gradient.
    #[serde(rename = "adamw")]
    AdamW,
    /// Stochastic gradient descent, with [momentum](https://proceedings.mlr.press/v28/sutskever13.html) or without.
    Sgd,
    /// [RMSprop](https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf).
    #[serde(rename = "rmsprop")]
    RmsProp,
    /// [AdaGrad](https://jmlr.org/papers/v12/duchi11a.html).
    #[serde(rename = "adagrad")]
    AdaGrad,
    /// [Adafactor](https://arxiv.org/abs/1804.04235): the learning rate is at most `1 / sqrt(step)`, and scaled by the root mean
    /// square of each weight; 0.01 is the paper's.
    Adafactor,
    /// [Adan](https://arxiv.org/abs/2208.06677).
    Adan,
    /// [LAMB](https://arxiv.org/abs/1904.00962).
    Lamb,
    /// [Lion](https://arxiv.org/abs/2302.06675).
    Lion,
}

impl OptimizerKind {
    /// All optimizers.
    pub const ALL: [Self; 9] = [
        Self::Adam,
        Self::AdamW,
        Self::Sgd,
        Self::RmsProp,
        Self::AdaGrad,
        Self::Adafactor,
        Self::Adan,
        Self::Lamb,
        Self::Lion,
    ];

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adam => "adam",
            Self::AdamW => "adamw",
            Self::Sgd => "sgd",
            Self::RmsProp => "rmsprop",
            Self::AdaGrad => "adagrad",
            Self::Adafactor => "adafactor",
            Self::Adan => "adan",
            Self::Lamb => "lamb",
            Self::Lion => "lion",
        }
    }

    /// The names of the constants that it has.
    #[must_use]
    pub fn constants(self) -> &'static [&'static str] {
        match self {
            Self::Adam | Self::AdamW => &["betas", "epsilon", "weight_decay", "amsgrad"],
            Self::Lamb => &["betas", "epsilon", "weight_decay"],
            Self::Sgd => &["momentum", "nesterov", "weight_decay"],
            Self::RmsProp => &["alpha", "epsilon", "weight_decay", "momentum", "centered"],
            Self::AdaGrad => &["lr_decay", "epsilon", "weight_decay"],
            Self::Adafactor => &["weight_decay"],
            Self::Adan => &["betas", "beta_3", "epsilon", "weight_decay"],
            Self::Lion => &["betas", "weight_decay"],
        }
    }
}

impl fmt::Display for OptimizerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! Which of Burn's optimizers, and what its states cost.

use burn::optim::{AdamConfig, AdamWConfig, DynOptimizer, ModuleOptimizer, decay::WeightDecayConfig};
use leanburn_common::Bytes;
use serde::{Deserialize, Serialize};

/// An optimizer of Burn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// [Adam](https://arxiv.org/abs/1412.6980); weight decay is added to the gradient.
    #[default]
    Adam,
    /// [AdamW](https://arxiv.org/abs/1711.05101); weight decay apart from the gradient.
    #[serde(rename = "adamw")]
    AdamW,
}

/// An optimizer with its constants. Defaults are PyTorch's (Burn's epsilon would be 1e-5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptimizerConfig {
    /// Which optimizer.
    pub kind: OptimizerKind,
    /// Decay of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay, 0 for none.
    pub weight_decay: f64,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { kind: OptimizerKind::Adam, betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl OptimizerConfig {
    /// An optimizer with the default constants.
    pub fn new(kind: OptimizerKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// With these decays of the first and the second moment.
    #[must_use]
    pub fn with_betas(mut self, betas: [f64; 2]) -> Self {
        self.betas = betas;
        self
    }

    /// With this added to the root of the second moment.
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

    /// The optimizer, without states yet.
    pub fn init(&self) -> ModuleOptimizer {
        match self.kind {
            OptimizerKind::Adam => self.adam().init(),
            OptimizerKind::AdamW => self.adamw().init(),
        }
    }

    /// The optimizer of a single parameter, without the module around it.
    pub(crate) fn build(&self) -> Box<dyn DynOptimizer> {
        match self.kind {
            OptimizerKind::Adam => Box::new(self.adam().build()),
            OptimizerKind::AdamW => Box::new(self.adamw().build()),
        }
    }

    fn adam(&self) -> AdamConfig {
        let [beta_1, beta_2] = self.betas.map(|beta| beta as f32);
        let config = AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(self.epsilon as f32);
        let decay = (self.weight_decay > 0.0).then(|| WeightDecayConfig::new(self.weight_decay as f32));
        config.with_weight_decay(decay)
    }

    fn adamw(&self) -> AdamWConfig {
        let [beta_1, beta_2] = self.betas.map(|beta| beta as f32);
        let config = AdamWConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.weight_decay as f32)
    }

    /// Size of the states for weights of this size: two moments.
    pub fn state_bytes(&self, weight_bytes: Bytes) -> Bytes {
        weight_bytes + weight_bytes
    }
}

//! Which of Burn's optimizers, and what its states cost.

use burn::optim::{AdamConfig, AdamWConfig, ModuleOptimizer, decay::WeightDecayConfig};
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
    /// The optimizer, without states yet.
    pub fn init(&self) -> ModuleOptimizer {
        let [beta_1, beta_2] = self.betas.map(|beta| beta as f32);
        let (epsilon, weight_decay) = (self.epsilon as f32, self.weight_decay as f32);
        match self.kind {
            OptimizerKind::Adam => {
                let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay));
                let config = AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(epsilon);
                config.with_weight_decay(decay).init()
            }
            OptimizerKind::AdamW => {
                let config = AdamWConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(epsilon);
                config.with_weight_decay(weight_decay).init()
            }
        }
    }

    /// Bytes of the states for this many bytes of weights: two moments.
    pub fn state_bytes(&self, weight_bytes: u64) -> u64 {
        2 * weight_bytes
    }
}

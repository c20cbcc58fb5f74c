//! The `training` section of a system: what all systems share.

use leanburn_train::{OptimizerKind, ScheduleKind};
use serde::Serialize;

use super::limits::{MANY, POSITIVE};
use super::reader::Section;

/// How a system is trained, and what for: one section, as both are in the guides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Training<O> {
    /// What all systems share.
    #[serde(flatten)]
    pub common: TrainingSection,
    /// The system's own objective.
    #[serde(flatten)]
    pub objective: O,
}

impl<O> Training<O> {
    pub(super) fn read(section: &mut Section<'_>, objective: impl FnOnce(&mut Section<'_>) -> O) -> Self {
        Self { common: TrainingSection::read(section), objective: objective(section) }
    }
}

/// How a system is trained, whichever it is. A step is one update of the weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingSection {
    /// Items (volumes, patches or windows) of one micro-batch. Default: 1.
    pub batch_size: usize,
    /// Micro-batches whose gradients make one step. Default: 1.
    pub gradient_accumulation_steps: usize,
    /// Recompute every segment in the backward pass instead of keeping it. Default: false.
    pub use_gradient_checkpointing: bool,
    /// Names of the segments to recompute, with `*` for any text, as in `decoder.level_0.*`.
    /// Default: none.
    pub recompute: Vec<String>,
    /// Learning rate, before any scaling. Default: 1e-4.
    pub learning_rate: f64,
    /// Default: adam.
    pub optimizer: OptimizerKind,
    /// Decay of the optimizer's first and second moments. Default: [0.9, 0.999].
    pub betas: [f64; 2],
    /// Added to the denominator of the optimizer's update. Default: 1e-8.
    pub epsilon: f64,
    /// Weight decay. Default: 0.
    pub weight_decay: f64,
    /// The learning rate after the warm-up. Default: constant.
    pub lr_schedule: ScheduleKind,
    /// Steps over which the learning rate rises from zero. Default: 0.
    pub warmup_steps: u64,
    /// Scales the learning rate by effective batch / this, the linear scaling rule
    /// ([Goyal et al.](https://arxiv.org/abs/1706.02677)). Default: no scaling.
    pub base_batch_size: Option<usize>,
    /// Steps to train for. Default: 1000.
    pub max_steps: u64,
    /// Clips the gradients' global norm to this. Default: no clipping.
    pub max_grad_norm: Option<f64>,
    /// Decay of the exponential moving average of the weights. Default: no average.
    pub ema_decay: Option<f64>,
    /// Stops after this many steps in a row were skipped for gradients that are not finite.
    /// Default: 20.
    pub max_bad_steps: u64,
    /// Steps between validations. Default: 50.
    pub val_interval: u64,
    /// Steps between pictures. Default: 50.
    pub visualize_interval: u64,
    /// Steps between checkpoints. Default: 100.
    pub checkpoint_interval: u64,
    /// Checkpoints to keep; older ones are deleted. Default: 2.
    pub keep_checkpoints: usize,
}

impl TrainingSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            batch_size: section.number("batch_size", 1, 1..=MANY),
            gradient_accumulation_steps: section.number("gradient_accumulation_steps", 1, 1..=MANY),
            use_gradient_checkpointing: section.get("use_gradient_checkpointing", false),
            recompute: section.get("recompute", Vec::new()),
            learning_rate: section.number("learning_rate", 1e-4, POSITIVE),
            optimizer: section.choice("optimizer", OptimizerKind::Adam),
            betas: section.number("betas", [0.9, 0.999], 0..1),
            epsilon: section.number("epsilon", 1e-8, POSITIVE),
            weight_decay: section.number("weight_decay", 0.0, 0..),
            lr_schedule: section.choice("lr_schedule", ScheduleKind::Constant),
            warmup_steps: section.get("warmup_steps", 0),
            base_batch_size: section.number("base_batch_size", None, 1..=MANY),
            max_steps: section.number("max_steps", 1000, 1..),
            max_grad_norm: section.number("max_grad_norm", None, POSITIVE),
            ema_decay: section.number("ema_decay", None, 0..1),
            max_bad_steps: section.number("max_bad_steps", 20, 1..),
            val_interval: section.number("val_interval", 50, 1..),
            visualize_interval: section.number("visualize_interval", 50, 0..),
            checkpoint_interval: section.number("checkpoint_interval", 100, 1..),
            keep_checkpoints: section.number("keep_checkpoints", 2, 1..=MANY),
        }
    }
}

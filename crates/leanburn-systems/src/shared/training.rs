//! The `training` section of a system: what all systems share.

use leanburn_common::{Validation, ValidationError};
use leanburn_train::{OptimizerConfig, OptimizerConstants, OptimizerKind, ScheduleKind};
use serde::Serialize;

use super::builders::with_methods;
use super::recompute::Recompute;
use super::storage::StorageSection;
use super::streaming::Streaming;
use crate::yaml::{MANY, POSITIVE, Section};

/// How a system is trained, and what for: one section, as both are in the guides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Training<O> {
    /// What all systems share.
    #[serde(flatten)]
    pub common: TrainingSection,
    /// The system's own objective.
    #[serde(flatten)]
    pub objective: O,
}

impl<O> Training<O> {
    pub(crate) fn read(section: &mut Section<'_>, objective: impl FnOnce(&mut Section<'_>) -> O) -> Self {
        Self::read_from(section, TrainingSection::default(), objective)
    }

    /// The same with other defaults.
    pub(crate) fn read_from(
        section: &mut Section<'_>,
        default: TrainingSection,
        objective: impl FnOnce(&mut Section<'_>) -> O,
    ) -> Self {
        Self { common: TrainingSection::read(section, default), objective: objective(section) }
    }
}

/// How a system is trained, whichever it is. A step is one update of the weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainingSection {
    /// Items (volumes, patches or windows) of one micro-batch. Default: 1.
    pub batch_size: usize,
    /// Micro-batches whose gradients make one step. Default: 1.
    pub gradient_accumulation_steps: usize,
    /// Which segments are recomputed in the backward pass: in YAML `use_gradient_checkpointing` for all of them, or
    /// `recompute` with names, `*` for any text, as in `decoder.level_0.*`. Default: none.
    #[serde(flatten)]
    pub recompute: Recompute,
    /// Which segments run in slabs along the depth: in YAML `stream` with names, `slab_planes`, `stream_keep` and
    /// `cached_percent`. Default: none.
    #[serde(flatten)]
    pub stream: Streaming,
    /// Where saved activations live until the backward pass: `compress`, `compress_segments`, `offload` and `offload_folder`.
    /// Default: in memory, as they are.
    #[serde(flatten)]
    pub storage: StorageSection,
    /// Learning rate, before any scaling. Default: 1e-4.
    pub learning_rate: f64,
    /// Default: adam.
    pub optimizer: OptimizerKind,
    /// Decay of the optimizer's first and second moments. Default: the optimizer's, [0.9, 0.999] for adam.
    pub betas: [f64; 2],
    /// Added to the denominator of the optimizer's update. Default: the optimizer's, 1e-8 for adam.
    pub epsilon: f64,
    /// Weight decay. Default: the optimizer's, 0 for adam.
    pub weight_decay: f64,
    /// Constants that only some optimizers have.
    #[serde(flatten)]
    pub constants: OptimizerConstants,
    /// The learning rate after the warm-up. Default: constant.
    pub lr_schedule: ScheduleKind,
    /// Steps from one fall of the learning rate to the next, under `lr_schedule` step. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_step_size: Option<u64>,
    /// The same in epochs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_step_epochs: Option<f64>,
    /// What each fall multiplies the learning rate by. Default: 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_gamma: Option<f64>,
    /// Steps over which the learning rate rises from zero. Default: 0.
    pub warmup_steps: u64,
    /// Scales the learning rate by effective batch / this, the linear scaling rule
    /// ([Goyal et al.](https://arxiv.org/abs/1706.02677)). Default: no scaling.
    pub base_batch_size: Option<usize>,
    /// Steps to train for, at most. Default: 1000; no limit (`u64::MAX`) where `max_epochs` is given.
    #[serde(skip_serializing_if = "is_endless")]
    pub max_steps: u64,
    /// Epochs to train for, at most; an epoch has as many steps as it takes to see each training sample once. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_epochs: Option<f64>,
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
    /// The validation metric by which the best weights are kept, in the folder `best` of the run. Default: none, the best are not
    /// kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_metric: Option<String>,
    /// Ends the run after this many validations in a row without a better `best_metric`. Default: none, it runs to `max_steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping_patience: Option<u64>,
    /// By how much `best_metric` must be better to count for early stopping. Default: 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub early_stopping_min_delta: f64,
    /// Steps between copies of the weights alone, in folders of their own; 0 makes none. Default: 0.
    #[serde(skip_serializing_if = "is_none")]
    pub weights_interval: u64,
    /// Of several processes: gradients are summed after each micro-batch instead of once a step, so that any number of processes gives the
    /// bits of one. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deterministic_ranks: bool,
    /// Of several processes: each updates a part of the weights, and holds the optimizer's states of that part alone. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shard_optimizer: bool,
    /// Of several processes: batch norms take the statistics of the micro-batches of all together, and a codebook follows them. Default: false,
    /// each its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sync_batch_norm: bool,
    /// Of several processes: how many hold a volume together, each a share of its planes. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub volume_ranks: usize,
}

/// `max_steps` of a training that something else ends.
pub(super) const ENDLESS: u64 = u64::MAX;

fn is_endless(steps: &u64) -> bool {
    *steps == ENDLESS
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Default for TrainingSection {
    fn default() -> Self {
        let optimizer = OptimizerConfig::default();
        Self {
            batch_size: 1,
            gradient_accumulation_steps: 1,
            recompute: Recompute::none(),
            stream: Streaming::none(),
            storage: StorageSection::default(),
            learning_rate: 1e-4,
            optimizer: optimizer.kind,
            betas: optimizer.betas,
            epsilon: optimizer.epsilon,
            weight_decay: optimizer.weight_decay,
            constants: optimizer.constants,
            lr_schedule: ScheduleKind::Constant,
            lr_step_size: None,
            lr_step_epochs: None,
            lr_gamma: None,
            warmup_steps: 0,
            base_batch_size: None,
            max_steps: 1000,
            max_epochs: None,
            max_grad_norm: None,
            ema_decay: None,
            max_bad_steps: 20,
            val_interval: 50,
            visualize_interval: 50,
            checkpoint_interval: 100,
            keep_checkpoints: 2,
            best_metric: None,
            early_stopping_patience: None,
            early_stopping_min_delta: 0.0,
            weights_interval: 0,
            deterministic_ranks: false,
            shard_optimizer: false,
            sync_batch_norm: false,
            volume_ranks: 1,
        }
    }
}

with_methods! { TrainingSection {
    with_batch_size => batch_size: usize,
    with_gradient_accumulation_steps => gradient_accumulation_steps: usize,
    with_recompute => recompute: Recompute,
    with_stream => stream: Streaming,
    with_storage => storage: StorageSection,
    with_learning_rate => learning_rate: f64,
    with_betas => betas: [f64; 2],
    with_epsilon => epsilon: f64,
    with_weight_decay => weight_decay: f64,
    with_constants => constants: OptimizerConstants,
    with_lr_schedule => lr_schedule: ScheduleKind,
    with_lr_step_size => lr_step_size: Option<u64>,
    with_lr_step_epochs => lr_step_epochs: Option<f64>,
    with_lr_gamma => lr_gamma: Option<f64>,
    with_warmup_steps => warmup_steps: u64,
    with_base_batch_size => base_batch_size: Option<usize>,
    with_max_steps => max_steps: u64,
    with_max_epochs => max_epochs: Option<f64>,
    with_max_grad_norm => max_grad_norm: Option<f64>,
    with_ema_decay => ema_decay: Option<f64>,
    with_max_bad_steps => max_bad_steps: u64,
    with_val_interval => val_interval: u64,
    with_visualize_interval => visualize_interval: u64,
    with_checkpoint_interval => checkpoint_interval: u64,
    with_keep_checkpoints => keep_checkpoints: usize,
    with_best_metric => best_metric: Option<String>,
    with_early_stopping_patience => early_stopping_patience: Option<u64>,
    with_early_stopping_min_delta => early_stopping_min_delta: f64,
    with_weights_interval => weights_interval: u64,
    with_deterministic_ranks => deterministic_ranks: bool,
    with_shard_optimizer => shard_optimizer: bool,
    with_sync_batch_norm => sync_batch_norm: bool,
    with_volume_ranks => volume_ranks: usize,
} }

impl TrainingSection {
    /// The same with another optimizer, and with its default constants.
    #[must_use]
    pub fn with_optimizer(self, kind: OptimizerKind) -> Self {
        let OptimizerConfig { kind, betas, epsilon, weight_decay, constants, .. } = OptimizerConfig::new(kind);
        Self { optimizer: kind, betas, epsilon, weight_decay, constants, ..self }
    }

    /// The optimizer with its constants.
    pub(crate) fn optimizer_config(&self) -> OptimizerConfig {
        OptimizerConfig::new(self.optimizer)
            .with_betas(self.betas)
            .with_epsilon(self.epsilon)
            .with_weight_decay(self.weight_decay)
            .with_constants(self.constants)
    }

    fn read(section: &mut Section<'_>, default: Self) -> Self {
        let kind = section.choice("optimizer", default.optimizer);
        let default = default.with_optimizer(kind);
        section.alias("epochs", "max_epochs");
        let max_epochs = section.number("max_epochs", default.max_epochs, POSITIVE);
        let max_steps = if max_epochs.is_some() { ENDLESS } else { default.max_steps };
        Self {
            batch_size: section.number("batch_size", default.batch_size, 1..=MANY),
            gradient_accumulation_steps: section.number(
                "gradient_accumulation_steps",
                default.gradient_accumulation_steps,
                1..=MANY,
            ),
            recompute: Recompute::read(section),
            stream: Streaming::read(section),
            storage: StorageSection::read(section),
            learning_rate: section.number("learning_rate", default.learning_rate, POSITIVE),
            optimizer: default.optimizer,
            betas: section.number("betas", default.betas, 0..1),
            epsilon: section.number("epsilon", default.epsilon, POSITIVE),
            weight_decay: section.number("weight_decay", default.weight_decay, 0..),
            constants: read_constants(section),
            lr_schedule: section.choice("lr_schedule", default.lr_schedule),
            lr_step_size: section.number("lr_step_size", default.lr_step_size, 1..),
            lr_step_epochs: section.number("lr_step_epochs", default.lr_step_epochs, POSITIVE),
            lr_gamma: section.number("lr_gamma", default.lr_gamma, POSITIVE),
            warmup_steps: section.get("warmup_steps", default.warmup_steps),
            base_batch_size: section.number("base_batch_size", default.base_batch_size, 1..=MANY),
            max_steps: section.number("max_steps", max_steps, 1..),
            max_epochs,
            max_grad_norm: section.number("max_grad_norm", default.max_grad_norm, POSITIVE),
            ema_decay: section.number("ema_decay", default.ema_decay, 0..1),
            max_bad_steps: section.number("max_bad_steps", default.max_bad_steps, 1..),
            val_interval: section.number("val_interval", default.val_interval, 1..),
            visualize_interval: section.number("visualize_interval", default.visualize_interval, 0..),
            checkpoint_interval: section.number("checkpoint_interval", default.checkpoint_interval, 1..),
            keep_checkpoints: section.number("keep_checkpoints", default.keep_checkpoints, 1..=MANY),
            best_metric: section.get("best_metric", default.best_metric),
            early_stopping_patience: section.number("early_stopping_patience", default.early_stopping_patience, 1..),
            early_stopping_min_delta: section.number("early_stopping_min_delta", default.early_stopping_min_delta, 0..),
            weights_interval: section.number("weights_interval", default.weights_interval, 0..),
            deterministic_ranks: section.get("deterministic_ranks", default.deterministic_ranks),
            shard_optimizer: section.get("shard_optimizer", default.shard_optimizer),
            sync_batch_norm: section.get("sync_batch_norm", default.sync_batch_norm),
            volume_ranks: section.number("volume_ranks", default.volume_ranks, 1..=MANY),
        }
    }

    /// What is wrong with [`volume_ranks`](Self::volume_ranks), in a system whose volumes can be shared or not.
    pub(crate) fn validate_volume_ranks(&self, can_be_shared: bool) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        if self.volume_ranks > 1 {
            let found = format!("{} processes for each volume", self.volume_ranks);
            let help = "remove it: only an autoencoder's volumes can be shared";
            validation.check(can_be_shared, "volume_ranks", "1 for this system", found, help);
        }
        validation.errors()
    }

    /// What is wrong with the values: keys of this section.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let counts = [
            ("batch_size", self.batch_size as u64),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps as u64),
            ("max_steps", self.max_steps),
            ("max_bad_steps", self.max_bad_steps),
            ("val_interval", self.val_interval),
            ("checkpoint_interval", self.checkpoint_interval),
            ("keep_checkpoints", self.keep_checkpoints as u64),
        ];
        for (key, count) in counts {
            validation.check(count > 0, key, "an integer of at least 1", count, "write at least 1");
        }
        let rate = self.learning_rate;
        let help = "write a number above 0";
        validation.check(rate.is_finite() && rate > 0.0, "learning_rate", "a number above 0", rate, help);
        validation.check_together(
            self.warmup_steps <= self.max_steps,
            &[],
            "warmup_steps",
            "a warm-up no longer than the training",
            format!("{} warm-up steps of {}", self.warmup_steps, self.max_steps),
            "lower `warmup_steps` or raise `max_steps`",
        );
        self.check_epochs_and_falls(&mut validation);
        validation.check_together(
            self.early_stopping_patience.is_none() || self.best_metric.is_some(),
            &["best_metric"],
            "early_stopping_patience",
            "a `best_metric` to stop by",
            "none",
            "name a validation metric, such as `best_metric: dice`, or remove `early_stopping_patience`",
        );
        [validation.errors(), self.storage.validate(), self.optimizer_config().validate()].concat()
    }
}

fn read_constants(section: &mut Section<'_>) -> OptimizerConstants {
    let mut constants = OptimizerConstants::default();
    constants.momentum = section.number("momentum", None, 0..1);
    constants.nesterov = section.get("nesterov", None);
    constants.amsgrad = section.get("amsgrad", None);
    constants.centered = section.get("centered", None);
    constants.alpha = section.number("alpha", None, 0..1);
    constants.lr_decay = section.number("lr_decay", None, 0..);
    constants.beta_3 = section.number("beta_3", None, 0..1);
    constants
}

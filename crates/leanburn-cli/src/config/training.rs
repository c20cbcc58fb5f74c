//! The `autoencoder.training` section.

use leanburn_nn::losses::AdversarialCriterion;
use leanburn_train::{OptimizerKind, ReconstructionLoss, ScheduleKind};
use serde::Serialize;

use super::limits::{MANY, POSITIVE};
use super::reader::Section;

/// How the autoencoder is trained. A step is one update of the weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingSection {
    /// Volumes (or patches) of one micro-batch. Default: 1.
    pub batch_size: usize,
    /// Micro-batches whose gradients make one step. Default: 1.
    pub gradient_accumulation_steps: usize,
    /// Recompute every segment in the backward pass instead of keeping it. Default: false.
    pub use_gradient_checkpointing: bool,
    /// Names of the segments to recompute, with `*` for any text, as in `decoder.level_0.*`.
    /// Default: none.
    pub recompute: Vec<String>,
    /// The most positions whose scores against all others attention holds at a time: fewer take less
    /// memory and more time. Default: as many as have 4,194,304 scores.
    pub attention_block: Option<usize>,
    /// Add the perceptual loss. Default: false.
    pub use_perceptual_loss: bool,
    /// Weight of the perceptual loss. Default: 0.001.
    pub perceptual_weight: f64,
    /// Learning rate of the autoencoder, before any scaling. Default: 1e-4.
    pub learning_rate: f64,
    /// Weight of the Kullback-Leibler divergence of the latent. Default: 1e-6.
    pub kl_weight: f64,
    /// Weight of the adversarial loss. Default: 0.01.
    pub adv_weight: f64,
    /// The loss between reconstruction and input. Default: l1.
    pub reconstruction_loss: ReconstructionLoss,
    /// The loss of the discriminator and against it. Default: least_squares.
    pub adversarial_loss: AdversarialCriterion,
    /// The step from which the adversarial loss counts. Default: 0.
    pub adversarial_start_step: u64,
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
    /// Steps between pictures of reconstructions. Default: 50.
    pub visualize_interval: u64,
    /// Steps between checkpoints. Default: 100.
    pub checkpoint_interval: u64,
    /// Checkpoints to keep; older ones are deleted. Default: 2.
    pub keep_checkpoints: usize,
    /// The discriminator. Default: none, no adversarial training.
    pub discriminator: Option<DiscriminatorSection>,
}

/// A patch discriminator of one or several scales.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiscriminatorSection {
    /// Layers that halve the resolution. Default: 3.
    pub num_layers_d: usize,
    /// Channels of the first layer. Default: 32.
    pub num_channels: usize,
    /// Width of the convolutions. Default: 4.
    pub kernel_size: usize,
    /// Discriminators, each at half the resolution of the one before. Default: 1.
    pub num_scales: usize,
    /// Learning rate of the discriminator. Default: the autoencoder's.
    pub learning_rate: Option<f64>,
}

impl TrainingSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            batch_size: section.number("batch_size", 1, 1..=MANY),
            gradient_accumulation_steps: section.number("gradient_accumulation_steps", 1, 1..=MANY),
            use_gradient_checkpointing: section.get("use_gradient_checkpointing", false),
            recompute: section.get("recompute", Vec::new()),
            attention_block: section.number("attention_block", None, 1..),
            use_perceptual_loss: section.get("use_perceptual_loss", false),
            perceptual_weight: section.number("perceptual_weight", 0.001, 0..),
            learning_rate: section.number("learning_rate", 1e-4, POSITIVE),
            kl_weight: section.number("kl_weight", 1e-6, 0..),
            adv_weight: section.number("adv_weight", 0.01, 0..),
            reconstruction_loss: section.choice("reconstruction_loss", ReconstructionLoss::L1),
            adversarial_loss: section.choice("adversarial_loss", AdversarialCriterion::LeastSquares),
            adversarial_start_step: section.get("adversarial_start_step", 0),
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
            visualize_interval: section.number("visualize_interval", 50, 1..),
            checkpoint_interval: section.number("checkpoint_interval", 100, 1..),
            keep_checkpoints: section.number("keep_checkpoints", 2, 1..=MANY),
            discriminator: section.optional("discriminator", DiscriminatorSection::read),
        }
    }
}

impl DiscriminatorSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            num_layers_d: section.number("num_layers_d", 3, 1..=16),
            num_channels: section.number("num_channels", 32, 1..=MANY),
            kernel_size: section.number("kernel_size", 4, 1..=32),
            num_scales: section.number("num_scales", 1, 1..=8),
            learning_rate: section.number("learning_rate", None, POSITIVE),
        }
    }
}

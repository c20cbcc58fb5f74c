//! What all systems share: learners, the trainer, which segments are recomputed.

use burn::module::Module;
use burn::tensor::Device;
use leanburn_nn::weights::moved;
use leanburn_ops::{Residency, ResidencyPolicy, is_gpu};
use leanburn_train::{LearnerConfig, LossScale, OptimizerConfig, Precision, ScheduleConfig, TrainerConfig};

use super::perceptual;
use crate::config::{self, Config, DeviceSection};
use crate::error::{CommandError, Result};

/// A model whose weights the CPU has drawn: a seed gives the same weights on every device.
pub(super) fn drawn<M: Module>(device: &Device, init: impl FnOnce(&Device) -> M) -> M {
    match is_gpu(device) {
        true => moved(init(&Device::flex().autodiff()), device),
        false => init(device),
    }
}

/// How the trainer runs the workload.
pub fn trainer(config: &Config) -> TrainerConfig {
    let training = config.training();
    TrainerConfig::default()
        .with_seed(config.seed)
        .with_accumulation_steps(training.gradient_accumulation_steps as u64)
        .with_max_bad_steps(training.max_bad_steps)
        .with_memory_limit(config.device.memory_limit.map(|limit| limit.as_u64()))
}

/// Which segments are recomputed; a pattern that names none is a mistake.
///
/// To know their names, `segments` builds models that are thrown away: call it before the weights' seed is set.
pub(super) fn policy(
    config: &Config,
    source: &str,
    segments: impl FnOnce() -> Result<Vec<String>>,
) -> Result<ResidencyPolicy> {
    let training = config.training();
    if training.use_gradient_checkpointing {
        return Ok(ResidencyPolicy::recompute_all());
    }
    let recompute = |policy: ResidencyPolicy, pattern: &String| policy.with_rule(pattern, Residency::Recompute);
    let policy = training.recompute.iter().fold(ResidencyPolicy::keep(), recompute);
    if policy.rules.is_empty() {
        return Ok(policy);
    }
    let segments = segments()?;
    let perceptual = config.system.perceptual();
    let names_none = |pattern: &&String| {
        if perceptual::names_slices(perceptual, pattern) {
            return false;
        }
        let alone = recompute(ResidencyPolicy::keep(), pattern);
        segments.iter().all(|name| alone.of(name) == Residency::Keep)
    };
    let mistakes = training.recompute.iter().filter(names_none).map(|pattern| {
        let text = format!("`{pattern}` names no segment; there are {}", segments.join(", "));
        ("training.recompute", text)
    });
    refuse(source, config.system.name(), mistakes.collect())?;
    Ok(policy)
}

/// Refuses a model with everything that is wrong with it.
pub(super) fn refuse(source: &str, section: &str, mistakes: Vec<(&'static str, String)>) -> Result<()> {
    if mistakes.is_empty() {
        return Ok(());
    }
    let mistakes = mistakes.into_iter().map(|(key, text)| (format!("{section}.{key}"), text)).collect();
    Err(CommandError::Model { path: source.to_string(), mistakes })
}

/// How a learner learns, at a rate before any scaling.
pub(super) fn learner(config: &Config, learning_rate: f64) -> LearnerConfig {
    let training = config.training();
    let schedule = ScheduleConfig::new(learning_rate)
        .with_kind(training.lr_schedule)
        .with_warmup_steps(training.warmup_steps)
        .with_max_steps(training.max_steps);
    let effective_batch = training.batch_size * training.gradient_accumulation_steps;
    let schedule = match training.base_batch_size {
        Some(base) => schedule.scaled_to_batch(effective_batch, base),
        None => schedule,
    };
    let optimizer = OptimizerConfig::new(training.optimizer)
        .with_betas(training.betas)
        .with_epsilon(training.epsilon)
        .with_weight_decay(training.weight_decay);
    LearnerConfig::new(schedule)
        .with_optimizer(optimizer)
        .with_loss_scale(loss_scale(&config.device))
        .with_max_grad_norm(training.max_grad_norm)
        .with_average_decay(training.ema_decay)
}

fn loss_scale(section: &DeviceSection) -> LossScale {
    match (section.resolved_precision(), section.loss_scale) {
        (Precision::F16, config::LossScale::Dynamic) => LossScale::DYNAMIC,
        (Precision::F16, config::LossScale::Static(scale)) => LossScale::Static(scale),
        _ => LossScale::NONE,
    }
}

//! What all systems share: learners, the trainer, which segments are recomputed.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_ops::{ResidencyPolicy, Unstreamable};
use leanburn_train::{LearnerConfig, LossScale, Precision, TrainerConfig};

use super::device_section::{self, DeviceSection};
use super::source::Context;
use super::training::TrainingSection;
use super::validation::reject;
use crate::error::Result;

/// How the trainer runs the workload.
pub(crate) fn trainer(context: &Context<'_>, training: &TrainingSection) -> TrainerConfig {
    TrainerConfig::default()
        .with_seed(context.seed)
        .with_accumulation_steps(training.gradient_accumulation_steps as u64)
        .with_max_bad_steps(training.max_bad_steps)
        .with_memory_limit(context.device.memory_limit)
        .with_deterministic_ranks(training.deterministic_ranks)
        .with_shard_optimizer(training.shard_optimizer)
        .with_sync_batch_norm(training.sync_batch_norm)
        .with_volume_ranks(training.volume_ranks)
        .with_planned_ranks(context.planned_ranks)
}

/// Which segments of the system `system` are recomputed, which are streamed, and where what segments save lives; a pattern that names none
/// is rejected, and what the device or a segment cannot do. What is drawn from here on is drawn from the configuration's seed.
///
/// To know their names, `segments` builds models that are thrown away; `chains` says of those that may be streamed what stands against it.
/// `is_known` says which patterns name segments that are not listed.
///
/// # Errors
///
/// [`SystemError::Config`](crate::SystemError::Config), and those of `segments`.
pub(crate) fn policy_and_seed(
    context: &Context<'_>,
    system: &str,
    training: &TrainingSection,
    device: &Device,
    is_known: impl Fn(&str) -> bool,
    segments: impl FnOnce() -> Result<Vec<String>>,
    chains: impl FnOnce() -> Vec<(String, Option<Unstreamable>)>,
) -> Result<ResidencyPolicy> {
    let policy = training.storage.policy(training.recompute.policy());
    let (mut errors, mut unstreamed) = (training.storage.unsupported(device), Vec::new());
    let is_streamed = !training.stream.patterns().is_empty();
    if is_streamed || !(policy.rules.is_empty() && policy.storage.is_empty()) {
        let segments = segments()?;
        let rules = policy.rules.iter().filter(|rule| !is_known(&rule.pattern)).cloned().collect();
        let unnamed = ResidencyPolicy { rules, ..policy.clone() }.validate(&segments);
        errors
            .extend(unnamed.into_iter().map(|error| ValidationError { key: key_of(&error, training).into(), ..error }));
        if is_streamed {
            unstreamed = training.stream.validate(&segments, &chains(), &format!("{system}.training.stream"));
        }
    }
    let placed = |error: ValidationError| ValidationError { key: format!("{system}.training.{}", error.key), ..error };
    reject(context, errors.into_iter().map(placed).chain(unstreamed).collect())?;
    leanburn_ops::random::seed(device, context.seed);
    Ok(training.stream.added_to(policy))
}

/// The segments that run in slabs where a model of the system is only used: of those that are recomputed nothing is left to save.
///
/// # Errors
///
/// [`SystemError::Config`](crate::SystemError::Config) for a pattern that names no segment, or one that cannot be streamed.
pub(crate) fn streamed_only(
    context: &Context<'_>,
    system: &str,
    training: &TrainingSection,
    segments: &[String],
    chains: &[(String, Option<Unstreamable>)],
) -> Result<ResidencyPolicy> {
    reject(context, training.stream.validate(segments, chains, &format!("{system}.training.stream")))?;
    Ok(training.stream.added_to(ResidencyPolicy::keep()))
}

/// The key whose pattern names no segment.
fn key_of(error: &ValidationError, training: &TrainingSection) -> &'static str {
    let is_found = |pattern: &String| error.found.starts_with(&format!("`{pattern}`"));
    match error.key.as_str() {
        "residency" => "recompute",
        _ if training.storage.offload.iter().any(is_found) => "offload",
        _ => "compress_segments",
    }
}

/// Numbers of a module that take a gradient; running statistics and codebooks do not.
pub(crate) fn trained_parameters<M: Module>(module: &M) -> usize {
    struct Count(usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            self.0 += if tensor.is_require_grad() { tensor.shape().num_elements() } else { 0 };
        }
    }
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

/// How a learner learns, at a rate before any scaling.
pub(crate) fn learner(context: &Context<'_>, training: &TrainingSection, learning_rate: f64) -> LearnerConfig {
    let schedule = training.schedule(learning_rate, context.samples);
    let effective_batch = training.batch_size * training.gradient_accumulation_steps;
    let schedule = match training.base_batch_size {
        Some(base) => schedule.scaled_to_batch(effective_batch, base),
        None => schedule,
    };
    LearnerConfig::new(schedule)
        .with_optimizer(training.optimizer_config())
        .with_loss_scale(loss_scale(context.device))
        .with_max_grad_norm(training.max_grad_norm)
        .with_average_decay(training.ema_decay)
}

fn loss_scale(section: &DeviceSection) -> LossScale {
    match (section.resolved_precision(), section.loss_scale) {
        (Precision::F16, device_section::LossScale::Dynamic) => LossScale::DYNAMIC,
        (Precision::F16, device_section::LossScale::Static(scale)) => LossScale::Static(scale),
        _ => LossScale::NONE,
    }
}

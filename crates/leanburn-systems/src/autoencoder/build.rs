//! Models and learners of the autoencoder, from its section.

use burn::tensor::Device;
use leanburn_ops::{ResidencyPolicy, Unstreamable};
use leanburn_train::{AutoencoderWorkload, Learner};

use super::discriminator::Discriminator;
use super::section::AutoencoderSection;
use crate::error::Result;
use crate::shared::{Context, learner, policy_and_seed};

/// What stands against streaming each segment of autoencoder and discriminator, if anything does.
pub(super) fn unstreamable(section: &AutoencoderSection, context: &Context<'_>) -> Vec<(String, Option<Unstreamable>)> {
    let device = Device::flex();
    let mut segments = section.model().init(&device).unstreamable();
    if let Some(discriminator) = &section.training.objective.discriminator {
        let model = discriminator.init(context, section.out_channels, &ResidencyPolicy::keep(), &device);
        segments.extend(model.unstreamable());
    }
    segments
}

/// Builds the models and their learners, with weights drawn from the configuration's seed.
pub(super) fn build(
    section: &AutoencoderSection,
    context: &Context<'_>,
    device: &Device,
) -> Result<AutoencoderWorkload<Discriminator>> {
    let (training, objective) = (&section.training.common, &section.training.objective);
    let model = section.model();
    let segments = || {
        let device = Device::flex();
        let mut segments = model.init(&device).segments();
        segments.extend(objective.perceptual.segments());
        if let Some(discriminator) = &objective.discriminator {
            let keep = ResidencyPolicy::keep();
            segments.extend(discriminator.init(context, section.out_channels, &keep, &device).segments());
        }
        Ok(segments)
    };
    let is_known = |pattern: &str| objective.perceptual.is_segment(pattern);
    let chains = || unstreamable(section, context);
    let policy = policy_and_seed(context, "autoencoder", training, device, is_known, segments, chains)?;
    let model = model.init(device).with_residency(policy.clone());
    let rate = training.learning_rate;
    let autoencoder = Learner::new("autoencoder", model, learner(context, training, rate))?;
    let discriminator = match &objective.discriminator {
        None => None,
        Some(discriminator) => {
            let rate = discriminator.learning_rate.unwrap_or(rate);
            let model = discriminator.init(context, section.out_channels, &policy, device);
            let config = learner(context, training, rate).with_average_decay(None);
            Some(Learner::new("discriminator", model, config)?)
        }
    };
    let precision = context.device.resolved_precision();
    let workload = AutoencoderWorkload::new(autoencoder, discriminator, objective.objective(), precision);
    Ok(workload.with_perceptual(objective.perceptual.build("autoencoder", device)?))
}

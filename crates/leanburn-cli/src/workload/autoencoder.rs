//! The KL autoencoder and its discriminator, from a configuration.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig,
    PatchDiscriminator, PatchDiscriminatorConfig,
};
use leanburn_nn::weights::{self, WeightsError};
use leanburn_ops::ResidencyPolicy;
use leanburn_train::{AutoencoderObjective, AutoencoderWorkload, Critic, Learner};

use super::learner::{drawn, learner, policy, refuse};
use super::perceptual;
use crate::config::{AutoencoderObjectiveSection, AutoencoderSection, Config, DiscriminatorSection};
use crate::error::{CommandError, Result};

/// The discriminator of a configuration: MONAI's of one scale, or its of several.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Discriminator {
    /// One scale.
    Patch(PatchDiscriminator),
    /// Several scales.
    MultiScale(MultiScalePatchDiscriminator),
}

impl Critic for Discriminator {
    fn judge(&self, volumes: Tensor<5>) -> Vec<Tensor<5>> {
        match self {
            Self::Patch(model) => model.judge(volumes),
            Self::MultiScale(model) => model.judge(volumes),
        }
    }
}

impl Discriminator {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        match self {
            Self::Patch(model) => model.segments(),
            Self::MultiScale(model) => model.segments(),
        }
    }

    /// Saves the weights in MONAI's names.
    ///
    /// # Errors
    ///
    /// As [`weights::save_safetensors`].
    pub fn save(&self, path: &std::path::Path) -> std::result::Result<(), WeightsError> {
        match self {
            Self::Patch(model) => weights::save_safetensors(model, path),
            Self::MultiScale(model) => weights::save_safetensors(model, path),
        }
    }
}

/// The configuration of the model.
pub fn model(section: &AutoencoderSection) -> AutoencoderKlConfig {
    AutoencoderKlConfig::new(
        section.num_channels.clone(),
        section.num_res_blocks.clone(),
        section.attention_levels.clone(),
    )
    .with_in_channels(section.in_channels)
    .with_out_channels(section.out_channels)
    .with_latent_channels(section.latent_channels)
    .with_norm_num_groups(section.norm_num_groups)
    .with_norm_eps(section.norm_eps)
    .with_encoder_nonlocal_attn(section.with_encoder_nonlocal_attn)
    .with_decoder_nonlocal_attn(section.with_decoder_nonlocal_attn)
    .with_use_convtranspose(section.use_convtranspose)
    .with_include_fc(section.include_fc)
    .with_use_combined_linear(section.use_combined_linear)
    .with_attention_block(section.training.objective.attention_block)
}

/// Builds the models and their learners, with weights drawn from the configuration's seed.
pub(super) fn build(
    config: &Config,
    section: &AutoencoderSection,
    source: &str,
    device: &Device,
) -> Result<AutoencoderWorkload<Discriminator>> {
    let training = &section.training.objective;
    let autoencoder = model(section);
    let mut mistakes = autoencoder.mistakes();
    if section.in_channels != section.out_channels {
        let text =
            format!("is {} but in_channels is {}; the two are compared", section.out_channels, section.in_channels);
        mistakes.push(("out_channels", text));
    }
    refuse(source, "autoencoder", mistakes)?;
    let segments = || {
        let device = Device::flex();
        let mut segments = autoencoder.init(&device).segments();
        segments.extend(perceptual::segments(&training.perceptual));
        if let Some(discriminator) = &training.discriminator {
            let keep = ResidencyPolicy::keep();
            segments.extend(
                init_discriminator(config, section.out_channels, discriminator, source, &keep, &device)?.segments(),
            );
        }
        Ok(segments)
    };
    let policy = policy(config, source, segments)?;
    leanburn_ops::random::seed(device, config.seed);
    let autoencoder = drawn(device, |device| autoencoder.init(device)).with_residency(policy.clone());
    let rate = section.training.common.learning_rate;
    let autoencoder = Learner::new("autoencoder", autoencoder, learner(config, rate))?;
    let discriminator = match &training.discriminator {
        None => None,
        Some(discriminator) => {
            let rate = discriminator.learning_rate.unwrap_or(rate);
            let model = init_discriminator(config, section.out_channels, discriminator, source, &policy, device)?;
            let config = learner(config, rate).with_average_decay(None);
            Some(Learner::new("discriminator", model, config)?)
        }
    };
    let precision = config.device.resolved_precision();
    let workload = AutoencoderWorkload::new(autoencoder, discriminator, objective(training), precision);
    Ok(workload.with_perceptual(perceptual::build(&training.perceptual, source, "autoencoder", device)?))
}

fn init_discriminator(
    config: &Config,
    channels: usize,
    section: &DiscriminatorSection,
    source: &str,
    policy: &ResidencyPolicy,
    device: &Device,
) -> Result<Discriminator> {
    const KEY: &str = "autoencoder.training.discriminator";
    let single = PatchDiscriminatorConfig::new(channels, section.num_channels)
        .with_num_layers_d(section.num_layers_d)
        .with_kernel_size(section.kernel_size);
    if section.num_scales == 1 {
        refuse(source, KEY, single.mistakes())?;
        return Ok(Discriminator::Patch(drawn(device, |device| single.init(device)).with_residency(policy.clone())));
    }
    let mut several = MultiScalePatchDiscriminatorConfig::new(section.num_scales, single);
    if let Some(size) = config.data.patch_size.or(config.data.voxel_size) {
        several = several.with_minimum_size(size.into_iter().min().unwrap_or(1));
    }
    refuse(source, KEY, several.mistakes())?;
    Ok(Discriminator::MultiScale(drawn(device, |device| several.init(device)).with_residency(policy.clone())))
}

/// Checks that something is left of a volume to judge after the discriminator's convolutions.
///
/// # Errors
///
/// [`CommandError::Input`].
pub(super) fn check_discriminator(section: &AutoencoderSection, name: &str, extent: [usize; 3]) -> Result<()> {
    let Some(section) = &section.training.objective.discriminator else {
        return Ok(());
    };
    // MONAI's: one scale has a padding of 1 and a last kernel like the others, of several each keeps its size
    let (padding, last_kernel) = match section.num_scales {
        1 => (1, section.kernel_size),
        _ => ((section.kernel_size - 1) / 2, 1),
    };
    let convolve = |size: usize, kernel: usize, padding: usize, stride: usize| {
        (size + 2 * padding).checked_sub(kernel).map(|free| free / stride + 1)
    };
    let is_enough = |&size: &usize| {
        let halved = (0..section.num_layers_d * section.num_scales)
            .try_fold(size, |size, _| convolve(size, section.kernel_size, padding, 2));
        halved
            .and_then(|size| convolve(size, section.kernel_size, padding, 1))
            .and_then(|size| convolve(size, last_kernel, (last_kernel - 1) / 2, 1))
            .is_some()
    };
    if extent.iter().all(is_enough) {
        return Ok(());
    }
    let least = (1..=1 << 20).find(is_enough).map_or("more".to_string(), |least| least.to_string());
    Err(CommandError::Input {
        subject: name.to_string(),
        expected: format!("at least {least} voxels along each axis, for autoencoder.training.discriminator to judge"),
        found: format!("{extent:?}"),
        remedy: "lower its num_layers_d, or enlarge data.patch_size or data.voxel_size".into(),
    })
}

fn objective(section: &AutoencoderObjectiveSection) -> AutoencoderObjective {
    AutoencoderObjective {
        reconstruction: section.reconstruction_loss,
        kl_weight: section.kl_weight,
        adversarial: section.adversarial_loss,
        adversarial_weight: section.adv_weight,
        adversarial_start_step: section.adversarial_start_step,
    }
}

/// The model alone, without autodiff, with weights from a file.
///
/// # Errors
///
/// [`CommandError::Input`] for another system, [`CommandError::Model`], [`CommandError::Weights`].
pub fn trained_model(
    config: &Config,
    source: &str,
    weights_path: &std::path::Path,
    device: &Device,
) -> Result<AutoencoderKl> {
    let section = config.autoencoder().ok_or_else(|| CommandError::Input {
        subject: source.to_string(),
        expected: "a configuration of an autoencoder, with a section `autoencoder`".into(),
        found: format!("a section `{}`", config.system.name()),
        remedy: "volumes go through autoencoders alone so far; a run's pictures show what other models make of them"
            .into(),
    })?;
    let model = model(section);
    refuse(source, "autoencoder", model.mistakes())?;
    let mut model = model.init(device);
    weights::load(&mut model, weights_path)?;
    Ok(model)
}

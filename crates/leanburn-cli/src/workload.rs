//! From a configuration to what is trained.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig,
    PatchDiscriminator, PatchDiscriminatorConfig,
};
use leanburn_nn::weights::{self, WeightsError};
use leanburn_ops::{Residency, ResidencyPolicy};
use leanburn_train::{
    AutoencoderObjective, AutoencoderWorkload, Critic, Learner, LearnerConfig, LossScale, OptimizerConfig, Precision,
    ScheduleConfig, TrainerConfig,
};

use crate::config::{self, AutoencoderSection, Config, DeviceSection, DiscriminatorSection, TrainingSection};
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

/// The workload of the command.
pub type Run = AutoencoderWorkload<Discriminator>;

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
    .with_attention_block(section.training.attention_block)
}

/// Builds the models and their learners, with weights drawn from the configuration's seed.
///
/// # Errors
///
/// [`CommandError::Model`] with everything that keeps a model from being built, [`CommandError::NotYet`].
pub fn build(config: &Config, source: &str, device: &Device) -> Result<Run> {
    let section = &config.autoencoder;
    let training = &section.training;
    if training.use_perceptual_loss {
        return Err(CommandError::NotYet {
            feature: "autoencoder.training.use_perceptual_loss",
            what: "the perceptual loss comes with a later version",
            remedy: "set use_perceptual_loss: false; the guide itself leaves it out at 256x256x64",
        });
    }
    let autoencoder = model(section);
    let mut mistakes = autoencoder.mistakes();
    if section.in_channels != section.out_channels {
        let text =
            format!("is {} but in_channels is {}; the two are compared", section.out_channels, section.in_channels);
        mistakes.push(("out_channels", text));
    }
    refuse(source, "autoencoder", mistakes)?;
    let policy = residency(config, &autoencoder, source)?;
    leanburn_ops::random::seed(device, config.seed);
    let autoencoder = autoencoder.init(device).with_residency(policy.clone());
    let autoencoder = Learner::new("autoencoder", autoencoder, learner(config, training.learning_rate))?;
    let discriminator = match &training.discriminator {
        None => None,
        Some(discriminator) => {
            let rate = discriminator.learning_rate.unwrap_or(training.learning_rate);
            let model = init_discriminator(config, discriminator, source, &policy, device)?;
            let config = LearnerConfig { average_decay: None, ..learner(config, rate) };
            Some(Learner::new("discriminator", model, config)?)
        }
    };
    Ok(Run::new(autoencoder, discriminator, objective(training), config.device.resolved_precision()))
}

/// How the trainer runs the workload.
pub fn trainer(config: &Config) -> TrainerConfig {
    let training = &config.autoencoder.training;
    TrainerConfig {
        seed: config.seed,
        accumulation_steps: training.gradient_accumulation_steps as u64,
        max_bad_steps: training.max_bad_steps,
        memory_limit: config.device.memory_limit.map(|limit| limit.as_u64()),
    }
}

/// Which segments are recomputed; a pattern that names none is a mistake.
///
/// To know their names it builds models that are thrown away: call it before the weights' seed is set.
fn residency(config: &Config, model: &AutoencoderKlConfig, source: &str) -> Result<ResidencyPolicy> {
    let training = &config.autoencoder.training;
    if training.use_gradient_checkpointing {
        return Ok(ResidencyPolicy::recompute_all());
    }
    let recompute = |policy: ResidencyPolicy, pattern: &String| policy.with_rule(pattern, Residency::Recompute);
    let policy = training.recompute.iter().fold(ResidencyPolicy::keep(), recompute);
    if policy.rules.is_empty() {
        return Ok(policy);
    }
    let device = Device::flex();
    let mut segments = model.init(&device).segments();
    if let Some(section) = &training.discriminator {
        segments.extend(init_discriminator(config, section, source, &ResidencyPolicy::keep(), &device)?.segments());
    }
    let names_none = |pattern: &&String| {
        let alone = recompute(ResidencyPolicy::keep(), pattern);
        segments.iter().all(|name| alone.of(name) == Residency::Keep)
    };
    let mistakes = training.recompute.iter().filter(names_none).map(|pattern| {
        let text = format!("`{pattern}` names no segment; there are {}", segments.join(", "));
        ("training.recompute", text)
    });
    refuse(source, "autoencoder", mistakes.collect())?;
    Ok(policy)
}

fn init_discriminator(
    config: &Config,
    section: &DiscriminatorSection,
    source: &str,
    policy: &ResidencyPolicy,
    device: &Device,
) -> Result<Discriminator> {
    const KEY: &str = "autoencoder.training.discriminator";
    let single = PatchDiscriminatorConfig::new(config.autoencoder.out_channels, section.num_channels)
        .with_num_layers_d(section.num_layers_d)
        .with_kernel_size(section.kernel_size);
    if section.num_scales == 1 {
        refuse(source, KEY, single.mistakes())?;
        return Ok(Discriminator::Patch(single.init(device).with_residency(policy.clone())));
    }
    let mut several = MultiScalePatchDiscriminatorConfig::new(section.num_scales, single);
    if let Some(size) = config.data.patch_size.or(config.data.voxel_size) {
        several = several.with_minimum_size(size.into_iter().min().unwrap_or(1));
    }
    refuse(source, KEY, several.mistakes())?;
    Ok(Discriminator::MultiScale(several.init(device).with_residency(policy.clone())))
}

/// Checks that something is left of a volume to judge after the discriminator's convolutions.
///
/// # Errors
///
/// [`CommandError::Input`].
pub fn check_discriminator(config: &Config, name: &str, extent: [usize; 3]) -> Result<()> {
    let Some(section) = &config.autoencoder.training.discriminator else {
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

fn refuse(source: &str, section: &str, mistakes: Vec<(&'static str, String)>) -> Result<()> {
    if mistakes.is_empty() {
        return Ok(());
    }
    let mistakes = mistakes.into_iter().map(|(key, text)| (format!("{section}.{key}"), text)).collect();
    Err(CommandError::Model { path: source.to_string(), mistakes })
}

fn learner(config: &Config, learning_rate: f64) -> LearnerConfig {
    let training = &config.autoencoder.training;
    let schedule = ScheduleConfig {
        learning_rate,
        kind: training.lr_schedule,
        warmup_steps: training.warmup_steps,
        max_steps: training.max_steps,
    };
    let effective_batch = training.batch_size * training.gradient_accumulation_steps;
    LearnerConfig {
        optimizer: OptimizerConfig {
            kind: training.optimizer,
            betas: training.betas,
            epsilon: training.epsilon,
            weight_decay: training.weight_decay,
        },
        schedule: match training.base_batch_size {
            Some(base) => schedule.scaled_to_batch(effective_batch, base),
            None => schedule,
        },
        loss_scale: loss_scale(&config.device),
        max_grad_norm: training.max_grad_norm,
        average_decay: training.ema_decay,
    }
}

fn loss_scale(section: &DeviceSection) -> LossScale {
    match (section.resolved_precision(), section.loss_scale) {
        (Precision::F16, config::LossScale::Dynamic) => LossScale::DYNAMIC,
        (Precision::F16, config::LossScale::Static(scale)) => LossScale::Static(scale),
        _ => LossScale::NONE,
    }
}

fn objective(training: &TrainingSection) -> AutoencoderObjective {
    AutoencoderObjective {
        reconstruction: training.reconstruction_loss,
        kl_weight: training.kl_weight,
        adversarial: training.adversarial_loss,
        adversarial_weight: training.adv_weight,
        adversarial_start_step: training.adversarial_start_step,
    }
}

/// The model alone, without autodiff, with weights from a file.
///
/// # Errors
///
/// [`CommandError::Model`], [`CommandError::Weights`].
pub fn trained_model(
    config: &Config,
    source: &str,
    weights_path: &std::path::Path,
    device: &Device,
) -> Result<AutoencoderKl> {
    let model = model(&config.autoencoder);
    refuse(source, "autoencoder", model.mistakes())?;
    let mut model = model.init(device);
    weights::load(&mut model, weights_path)?;
    Ok(model)
}

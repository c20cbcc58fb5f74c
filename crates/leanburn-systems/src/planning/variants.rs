//! Changes of a configuration that save memory, by class.

use leanburn_plan::{Class, Variant};
use leanburn_train::Precision;

use crate::config::{AutoencoderSection, Config, ModelType, SystemSection, VaeType, VqVaeSection};
use crate::workload::{BatchShape, multiples};

/// The configuration as it is, then with each change that can be made to it, mildest class first.
///
/// `half` is the half precision that the device computes in.
pub fn variants(config: &Config, half: Option<Precision>) -> Vec<(Variant, Config)> {
    let as_it_is = variant("", Class::Lossless, "", config, |_| {});
    let halved = half.and_then(|half| half_precision(config, half));
    let base = halved.as_ref().map_or(config, |(_, halved)| halved).clone();
    [Some(as_it_is), halved].into_iter().flatten().chain(model_changes(config, &base)).collect()
}

fn variant(
    change: impl Into<String>,
    class: Class,
    cost: &str,
    config: &Config,
    apply: impl FnOnce(&mut Config),
) -> (Variant, Config) {
    let mut changed = config.clone();
    apply(&mut changed);
    (Variant { change: change.into(), class, cost: cost.to_string() }, changed)
}

fn half_precision(config: &Config, half: Precision) -> Option<(Variant, Config)> {
    let cost = match half {
        Precision::F16 => {
            "activations are rounded to 11 bits and the loss is scaled; weights, statistics and sums stay float32"
        }
        _ => "activations are rounded to 8 bits; weights, statistics and sums stay float32",
    };
    let is_wide = config.device.resolved_precision() == Precision::F32;
    is_wide.then(|| {
        variant(format!("device.precision = {half}"), Class::Numerics, cost, config, |config| {
            config.device.precision = Some(half);
            config.device.mixed_precision = false;
        })
    })
}

/// Changes of the model, each alone and on top of `base`.
fn model_changes(config: &Config, base: &Config) -> Vec<(Variant, Config)> {
    let mut changes = match &config.system {
        SystemSection::Autoencoder(section) => autoencoder_changes(section, base),
        SystemSection::Vae3d(section) => smaller_vaes(section.vae_type, base),
        SystemSection::VqVae(section) => halved_vq_vae(section, base).into_iter().collect(),
        SystemSection::Forecaster(section) => smaller_forecasters(section.model_type, base),
    };
    changes.extend(halved_resolution(config, base));
    changes
}

fn autoencoder_changes(section: &AutoencoderSection, base: &Config) -> Vec<(Variant, Config)> {
    let mut changes = Vec::new();
    let mut change = |text: String, cost: &str, apply: &dyn Fn(&mut AutoencoderSection)| {
        changes.push(variant(text, Class::Model, cost, base, |config| {
            config.autoencoder_mut().into_iter().for_each(apply)
        }));
    };
    let attends = section.attention_levels.contains(&true)
        || section.with_encoder_nonlocal_attn
        || section.with_decoder_nonlocal_attn;
    if attends {
        change("without attention".into(), "positions no longer see each other across the volume", &|section| {
            section.attention_levels.fill(false);
            (section.with_encoder_nonlocal_attn, section.with_decoder_nonlocal_attn) = (false, false);
        });
    }
    if section.training.objective.perceptual.use_perceptual_loss {
        change("without the perceptual loss".into(), "textures are less sharp", &|section| {
            section.training.objective.perceptual.use_perceptual_loss = false;
        });
    }
    if section.training.objective.discriminator.is_some() {
        change("without the discriminator".into(), "reconstructions are smoother", &|section| {
            section.training.objective.discriminator = None;
            section.training.objective.adversarial_start_step = 0;
        });
    }
    let groups = section.norm_num_groups;
    if section.num_channels.iter().all(|channels| (channels / 2).is_multiple_of(groups) && channels / 2 > 0) {
        let halved: Vec<usize> = section.num_channels.iter().map(|channels| channels / 2).collect();
        let text = format!("autoencoder.num_channels = {halved:?}");
        change(text, "a smaller model: a quarter of the weights", &|section| section.num_channels = halved.clone());
    }
    changes
}

/// The guide's smaller voxel autoencoders.
fn smaller_vaes(from: VaeType, base: &Config) -> Vec<(Variant, Config)> {
    let ladder = [
        (VaeType::Standard, "standard"),
        (VaeType::Lightweight, "lightweight"),
        (VaeType::UltraLightweight, "ultra_lightweight"),
    ];
    let smaller = ladder.into_iter().skip_while(|(size, _)| *size != from).skip(1);
    let change = |(size, name): (VaeType, &str)| {
        variant(format!("vae3d.vae_type = {name}"), Class::Model, "a smaller model", base, |config| {
            if let SystemSection::Vae3d(section) = &mut config.system {
                section.vae_type = size;
            }
        })
    };
    smaller.map(change).collect()
}

fn halved_vq_vae(section: &VqVaeSection, base: &Config) -> Option<(Variant, Config)> {
    let half = |channels: &[usize]| -> Vec<usize> { channels.iter().map(|channels| channels.div_ceil(2)).collect() };
    let (channels, inside) = (half(&section.channels), half(&section.num_res_channels));
    let text = format!("vqvae.channels = {channels:?}");
    let is_smaller = channels != section.channels;
    is_smaller.then(|| {
        variant(text, Class::Model, "a smaller model: a quarter of the weights", base, |config| {
            if let SystemSection::VqVae(section) = &mut config.system {
                (section.channels, section.num_res_channels) = (channels, inside);
            }
        })
    })
}

/// The guide's smaller forecasters.
fn smaller_forecasters(from: ModelType, base: &Config) -> Vec<(Variant, Config)> {
    let smaller = ModelType::ALL.into_iter().skip_while(|model| *model != from).skip(1);
    let change = |model: ModelType| {
        variant(format!("forecaster.model_type = {}", model.name()), Class::Model, "another model", base, |config| {
            if let SystemSection::Forecaster(section) = &mut config.system {
                section.model_type = model;
            }
        })
    };
    smaller.map(change).collect()
}

fn halved_resolution(config: &Config, base: &Config) -> Option<(Variant, Config)> {
    let multiples = multiples(config);
    let (key, size) = match (config.data.patch_size, config.data.voxel_size) {
        (Some(size), _) => ("data.patch_size", size),
        (None, Some(size)) => ("data.voxel_size", size),
        (None, None) => return None,
    };
    let can_be = size
        .iter()
        .zip(multiples)
        .all(|(length, multiple)| length.is_multiple_of(2 * multiple) && *length >= 4 * multiple);
    let halved = size.map(|length| length / 2);
    // Losses that look at the volume have a smallest size of their own.
    let is_taken = |config: &Config| BatchShape::of(config, 1, halved).check(config, key).is_ok();
    let halve = || {
        let cost = "an eighth of the voxels: fine detail or context is lost";
        variant(format!("{key} = {halved:?}"), Class::Model, cost, base, |config| match config.data.patch_size {
            Some(_) => config.data.patch_size = Some(halved),
            None => config.data.voxel_size = Some(halved),
        })
    };
    can_be.then(halve).filter(|(_, config)| is_taken(config))
}

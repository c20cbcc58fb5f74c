//! Changes of a configuration that save memory, by class.

use leanburn_plan::{Class, Variant};
use leanburn_train::Precision;

use crate::config::Config;

/// The configuration as it is, then with each change that can be made to it, mildest class first.
pub fn variants(config: &Config) -> Vec<(Variant, Config)> {
    let as_it_is = variant("", Class::Lossless, "", config, |_| {});
    [Some(as_it_is), half_precision(config)].into_iter().flatten().chain(model_changes(config)).collect()
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

fn half_precision(config: &Config) -> Option<(Variant, Config)> {
    let cost = "activations are rounded to 8 bits; weights, statistics and sums stay float32";
    let is_wide = config.device.resolved_precision() == Precision::F32;
    is_wide.then(|| {
        variant("device.precision = bf16", Class::Numerics, cost, config, |config| {
            config.device.precision = Some(Precision::Bf16);
            config.device.mixed_precision = false;
        })
    })
}

/// Changes of the model, each alone and on top of half precision where that is one.
fn model_changes(config: &Config) -> Vec<(Variant, Config)> {
    let base = half_precision(config).map_or_else(|| config.clone(), |(_, config)| config);
    let section = &config.autoencoder;
    let mut changes = Vec::new();
    let attends = section.attention_levels.contains(&true)
        || section.with_encoder_nonlocal_attn
        || section.with_decoder_nonlocal_attn;
    if attends {
        let cost = "positions no longer see each other across the volume";
        changes.push(variant("without attention", Class::Model, cost, &base, |config| {
            let section = &mut config.autoencoder;
            section.attention_levels.fill(false);
            (section.with_encoder_nonlocal_attn, section.with_decoder_nonlocal_attn) = (false, false);
        }));
    }
    if section.training.discriminator.is_some() {
        let cost = "reconstructions are smoother";
        changes.push(variant("without the discriminator", Class::Model, cost, &base, |config| {
            config.autoencoder.training.discriminator = None;
            config.autoencoder.training.adversarial_start_step = 0;
        }));
    }
    let groups = section.norm_num_groups;
    if section.num_channels.iter().all(|channels| (channels / 2).is_multiple_of(groups) && channels / 2 > 0) {
        let halved: Vec<usize> = section.num_channels.iter().map(|channels| channels / 2).collect();
        let cost = "a smaller model: a quarter of the weights";
        let change = format!("autoencoder.num_channels = {halved:?}");
        changes.push(variant(change, Class::Model, cost, &base, |config| config.autoencoder.num_channels = halved));
    }
    changes.extend(halved_resolution(config, &base));
    changes
}

fn halved_resolution(config: &Config, base: &Config) -> Option<(Variant, Config)> {
    let factor = 2 << (config.autoencoder.num_channels.len() - 1);
    let (key, size) = match (config.data.patch_size, config.data.voxel_size) {
        (Some(size), _) => ("data.patch_size", size),
        (None, Some(size)) => ("data.voxel_size", size),
        (None, None) => return None,
    };
    let can_be = size.iter().all(|length| length.is_multiple_of(factor) && length / 2 >= factor);
    can_be.then(|| {
        let halved = size.map(|length| length / 2);
        let cost = "an eighth of the voxels: fine detail or context is lost";
        variant(format!("{key} = {halved:?}"), Class::Model, cost, base, |config| match config.data.patch_size {
            Some(_) => config.data.patch_size = Some(halved),
            None => config.data.voxel_size = Some(halved),
        })
    })
}

//! Changes of a configuration that save memory, by class.

use leanburn_plan::{Class, Variant};
use leanburn_train::Precision;

use crate::config::Config;
use crate::system::ModelChange;
use crate::table::SystemSection;

/// The configuration as it is, then with each change that can be made to it, mildest class first. Saved activations are offloaded where
/// the configuration names a folder for them, in half precision too; changes of the model come without that.
///
/// `half` is the half precision that the device computes in. Of several processes the optimizer's states are split before anything is
/// changed that is not lossless.
pub fn variants(config: &Config, half: Option<Precision>, ranks: u64) -> Vec<(Variant, Config)> {
    let as_it_is = variant("", Class::Lossless, "", config, |_| {});
    let sharded = sharded(config, ranks);
    let base = sharded.as_ref().map_or(config, |(_, sharded)| sharded).clone();
    let offloaded = offloaded(&base);
    let halved = half.and_then(|half| half_precision(&base, half));
    let both = halved.as_ref().and_then(also_offloaded);
    let base = halved.as_ref().map_or(&base, |(_, halved)| halved).clone();
    let variants = [Some(as_it_is), sharded, offloaded, halved, both];
    variants.into_iter().flatten().chain(model_changes(config, &base)).collect()
}

fn sharded(config: &Config, ranks: u64) -> Option<(Variant, Config)> {
    let is_whole = ranks > 1 && !config.training().shard_optimizer;
    is_whole.then(|| {
        let change = format!("{}.training.shard_optimizer = true", config.system_name());
        let cost = "each process holds the optimizer's states of a part of the weights; as much is sent";
        variant(change, Class::Lossless, cost, config, |config| config.training_mut().shard_optimizer = true)
    })
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

fn offloaded(config: &Config) -> Option<(Variant, Config)> {
    let storage = &config.training().storage;
    let is_allowed = storage.offload_folder.is_some() && storage.offload.is_empty();
    is_allowed.then(|| {
        let change = format!("{}.training.offload = [\"*\"]", config.system_name());
        let cost = "saved activations are written to `offload_folder` and read again; the rate of a disk is assumed";
        variant(change, Class::Lossless, cost, config, |config| {
            config.training_mut().storage.offload = vec!["*".to_string()];
        })
    })
}

/// A variant with saved activations offloaded too.
fn also_offloaded((variant, config): &(Variant, Config)) -> Option<(Variant, Config)> {
    let (offloaded, config) = offloaded(config)?;
    let change = format!("{}, {}", variant.change, offloaded.change);
    let cost = format!("{}; {}", variant.cost, offloaded.cost);
    Some((Variant { change, class: variant.class, cost }, config))
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
    let changed = |change: ModelChange<SystemSection>| {
        let ModelChange { text, cost, section } = change;
        variant(text, Class::Model, cost, base, |config| config.system = section)
    };
    config.system.smaller().into_iter().map(changed).chain(halved_resolution(config, base)).collect()
}

fn halved_resolution(config: &Config, base: &Config) -> Option<(Variant, Config)> {
    let multiples = config.multiples();
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
    // losses on slices of the volume have a smallest size of their own
    let is_taken = |config: &Config| {
        let (system, [depth, height, width]) = (config.system.any(), config.extent().unwrap_or(halved));
        system.check_sample(key, [system.in_channels(), depth, height, width]).is_ok()
    };
    let halve = || {
        let cost = "an eighth of the voxels: fine detail or context is lost";
        variant(format!("{key} = {halved:?}"), Class::Model, cost, base, |config| match config.data.patch_size {
            Some(_) => config.data.patch_size = Some(halved),
            None => config.data.voxel_size = Some(halved),
        })
    };
    can_be.then(halve).filter(|(_, config)| is_taken(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_activations_are_offloaded_only_where_a_folder_is_named() {
        let lossless = |more: &str| {
            let training = format!("training: {{batch_size: 1{more}}}");
            let text = format!(
                "autoencoder: {{num_channels: [8], norm_num_groups: 8, {training}}}\n\
                 data: {{phantom: {{count: 2, shape: 32}}, patch_size: 32}}\ndevice: {{name: flex}}\n"
            );
            let mut variants = variants(&Config::parse(&text, "test", &[]).unwrap(), Some(Precision::Bf16), 1);
            variants.retain(|(variant, _)| variant.class == Class::Lossless);
            variants
        };
        assert_eq!(lossless("").len(), 1);
        let allowed = lossless(", offload_folder: /scratch");
        assert_eq!(allowed.len(), 2);
        assert_eq!(allowed[1].0.change, "autoencoder.training.offload = [\"*\"]");
        assert_eq!(allowed[1].1.training().storage.offload, ["*"]);
        assert_eq!(lossless(", offload_folder: /scratch, offload: [decoder.level_0]").len(), 1);
    }

    #[test]
    fn activations_in_half_precision_are_offloaded_too() {
        let text = "autoencoder: {num_channels: [8], norm_num_groups: 8, training: {batch_size: 1, offload_folder: /scratch}}\n\
                    data: {phantom: {count: 2, shape: 32}, patch_size: 32}\ndevice: {name: flex}\n";
        let variants = variants(&Config::parse(text, "test", &[]).unwrap(), Some(Precision::Bf16), 1);
        let is_both = |config: &Config| {
            config.device.resolved_precision() == Precision::Bf16 && config.training().storage.offload == ["*"]
        };
        let both: Vec<&Variant> =
            variants.iter().filter(|(_, config)| is_both(config)).map(|(variant, _)| variant).collect();
        let [Variant { change, class, .. }] = both[..] else { panic!("{both:?}") };
        assert_eq!(
            (change.as_str(), *class),
            ("device.precision = bf16, autoencoder.training.offload = [\"*\"]", Class::Numerics)
        );
    }

    #[test]
    fn states_are_split_before_precision_is_lowered() {
        let of = |ranks, more: &str| {
            let text = format!(
                "autoencoder: {{num_channels: [8], norm_num_groups: 8, training: {{batch_size: 1{more}}}}}\n\
                 data: {{phantom: {{count: 2, shape: 32}}, patch_size: 32}}\ndevice: {{name: flex}}\n"
            );
            let variants = variants(&Config::parse(&text, "test", &[]).unwrap(), Some(Precision::Bf16), ranks);
            let said = |(variant, config): (Variant, Config)| (variant.change, config.training().shard_optimizer);
            variants.into_iter().map(said).take(3).collect::<Vec<_>>()
        };
        let of_two = of(2, "");
        assert_eq!(of_two[0], (String::new(), false));
        assert_eq!(of_two[1], ("autoencoder.training.shard_optimizer = true".into(), true));
        assert_eq!(of_two[2], ("device.precision = bf16".into(), true), "on top of it");
        assert!(of(1, "").iter().all(|(_, is_sharded)| !is_sharded));
        assert_eq!(of(2, ", shard_optimizer: true")[1], ("device.precision = bf16".into(), true));
    }
}

//! What is documented, and what is written: defaults, recipes, and YAML that reads back as the same.

use leanburn_train::{OptimizerConfig, OptimizerKind, Precision};

use super::systems::{all_keys_set, diffusion_systems, other_systems};
use super::*;
use crate::shared::{LossScale, Recompute};
use crate::table::recipes;

#[test]
fn defaults_are_those_of_the_documentation() {
    let config = parse(MINIMAL).unwrap();
    assert_eq!(config.seed, 42);
    assert_eq!(config.data, leanburn_data::DataConfig { paths: vec!["data/scans".into()], ..Default::default() });
    let autoencoder = config.autoencoder().unwrap();
    assert_eq!(
        (autoencoder.num_res_blocks.as_slice(), autoencoder.attention_levels.as_slice()),
        (&[2, 2][..], &[false; 2][..])
    );
    assert_eq!((autoencoder.latent_channels, autoencoder.norm_num_groups, autoencoder.norm_eps), (3, 32, 1e-6));
    let training = config.training();
    assert_eq!((training.batch_size, training.max_steps, training.learning_rate), (1, 1000, 1e-4));
    assert_eq!((training.betas, training.epsilon, training.keep_checkpoints), ([0.9, 0.999], 1e-8, 2));
    assert_eq!(autoencoder.training.objective.discriminator, None);
    assert_eq!(config.device.name, "best", "no device is looked for");
    assert_eq!((config.device.resolved_precision(), config.device.loss_scale), (Precision::F32, LossScale::Dynamic));
}

#[test]
fn yaml_that_is_written_reads_back_as_the_same() {
    let recipes = recipes().into_iter().map(|recipe| parse(recipe.text).unwrap());
    for config in recipes.chain(other_systems()).chain(diffusion_systems()).chain([
        all_keys_set("voxel_size: [64, 64, 32]"),
        all_keys_set("spacing: [1.5, 2, 2.5]"),
        parse(MINIMAL).unwrap(),
    ]) {
        let yaml = config.to_yaml();
        let again = parse(&yaml).unwrap_or_else(|errors| panic!("{errors:#}\n{yaml}"));
        assert_eq!(again, config, "{yaml}");
    }
}

#[test]
fn recipes_are_those_of_the_guide() {
    let read = |name: &str| {
        let recipe = recipes().into_iter().find(|recipe| recipe.name == name).unwrap();
        parse(recipe.text).unwrap_or_else(|errors| panic!("{name}: {errors:#}"))
    };
    for (name, channels, groups, batch, steps, recompute, perceptual) in [
        ("autoencoder-24gb", [16, 32, 64], 8, 1, 4, true, false),
        ("autoencoder-32gb", [24, 48, 64], 8, 2, 2, false, true),
        ("autoencoder-40gb", [32, 64, 128], 16, 4, 1, false, true),
    ] {
        let config = read(name);
        let (autoencoder, training) = (config.autoencoder().unwrap(), config.training());
        assert_eq!((autoencoder.num_channels.as_slice(), autoencoder.norm_num_groups), (&channels[..], groups));
        assert_eq!((training.batch_size, training.gradient_accumulation_steps), (batch, steps));
        let uses_perceptual_loss = autoencoder.training.objective.perceptual.use_perceptual_loss;
        assert_eq!((training.recompute == Recompute::all(), uses_perceptual_loss), (recompute, perceptual));
        assert_eq!(config.device.resolved_precision(), Precision::F16);
        assert_eq!(config.data.voxel_size, Some([256, 256, 64]));
    }
    let small = read("mni152-autoencoder");
    assert_eq!(small.autoencoder().unwrap().num_channels, [8, 16, 32]);
    assert_eq!(small.data.patch_size, Some([32; 3]));
}

#[test]
fn every_key_is_documented() {
    let documentation = include_str!("../../../docs/configuration.md");
    let everything = "data: {phantom: {count: 1}, augmentation: nnunet}\nautoencoder: {num_channels: [32], training: {discriminator: {}}}\n";
    let maps = Config::new(crate::BevSection::default());
    let others = other_systems().into_iter().chain(diffusion_systems()).chain([maps]).map(|config| config.to_yaml());
    let yaml = parse(everything).unwrap().to_yaml() + &others.collect::<String>();
    let keys = yaml.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").split_once(':'));
    let missing: Vec<&str> =
        keys.map(|(key, _)| key).filter(|key| !documentation.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(documentation.contains("`kernel_size`") && yaml.contains("kernel_size"));
}

#[test]
fn each_optimizer_has_constants_of_its_own() {
    let with = |training: &str| {
        let text = "data: {paths: [a]}\nautoencoder:\n  num_channels: [32]\n  training:\n";
        parse(&training.split(", ").fold(text.to_string(), |text, line| format!("{text}    {line}\n")))
    };
    let of = |training: &str| with(training).unwrap_or_else(|errors| panic!("{errors:#}"));
    for kind in OptimizerKind::ALL {
        let config = of(&format!("optimizer: {kind}"));
        assert_eq!(config.training().optimizer_config(), OptimizerConfig::new(kind));
        assert_eq!(parse(&config.to_yaml()).unwrap().training(), config.training());
    }
    let config = of("optimizer: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.1");
    let expected = OptimizerConfig::new(OptimizerKind::Sgd).with_momentum(0.9).with_nesterov(true);
    assert_eq!(config.training().optimizer_config(), expected.with_weight_decay(0.1));
    assert_eq!(parse(&config.to_yaml()).unwrap().training(), config.training());

    let errors = with("optimizer: lion, momentum: 0.9, epsilon: 1e-3, lr_decay: -1").unwrap_err();
    let found: Vec<_> = errors.errors().iter().map(|error| (error.position().unwrap().0, error.key.as_str())).collect();
    let training = |key: &str| format!("autoencoder.training.{key}");
    let expected = [(6, training("momentum")), (7, training("epsilon")), (8, training("lr_decay"))];
    assert_eq!(found, expected.each_ref().map(|(line, key)| (*line, key.as_str())), "{errors:#}");
    assert_eq!(errors.errors()[0].help, "remove `momentum`; the constants of lion are betas, weight_decay");
}

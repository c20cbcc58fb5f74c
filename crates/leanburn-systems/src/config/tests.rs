//! The reader as a whole: what it accepts, and what it says about what it does not.

use std::path::Path;
use std::time::{Duration, Instant};

use leanburn_nn::models::FnoConfig;
use leanburn_train::{OptimizerConfig, OptimizerKind, Precision, ScheduleKind};

use super::*;
use crate::autoencoder::AutoencoderSection;
use crate::forecaster::ModelType;
use crate::operator::OperatorModel;
use crate::shared::{LossScale, Recompute};
use crate::super_resolution::SuperResolutionLoss;
use crate::table::{SystemSection, recipes};
use crate::vae3d::VaeType;
use crate::yaml::{ConfigError, ConfigErrorKind, ConfigErrors, Place};

impl Config {
    fn autoencoder(&self) -> Option<&AutoencoderSection> {
        match &self.system {
            SystemSection::Autoencoder(section) => Some(section),
            _ => None,
        }
    }
}

const MINIMAL: &str = "data: {paths: [data/scans]}\nautoencoder: {num_channels: [32, 64]}\n";

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, "test.yaml", &[])
}

fn parse_set(overrides: &[&str]) -> Result<Config, ConfigErrors> {
    let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
    Config::parse(MINIMAL, "test.yaml", &overrides)
}

/// The only error of a minimal configuration with one value changed.
fn error_of(setting: &str) -> ConfigError {
    let errors = parse_set(&[setting]).expect_err(setting);
    assert_eq!(errors.errors().len(), 1, "{errors:#}");
    errors.errors()[0].clone()
}

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
fn ten_errors_are_reported_at_once_each_with_its_place() {
    let text = "\
sead: 7
data:
  paths: [data/scans]
  voxel_size: [30, 32]
  val_fraction: 1.5
autoencoder:
  num_channels: [16, 32, 0]
  batch_size: 2
  training:
    batchsize: 2
    learning_rate: fast
    learning_rate: 1e-4
    optimizer: adm
    betas: [0.9, 1.0]
device:
  mixed_precision: true
  precision: f32
";
    let errors = parse(text).unwrap_err();
    let found: Vec<_> =
        errors.errors().iter().map(|error| (error.position().unwrap(), error.key.as_str(), error.kind)).collect();
    use ConfigErrorKind::*;
    let expected = [
        ((1, 1), "sead", UnknownKey),
        ((4, 15), "data.voxel_size", WrongValue),
        ((5, 17), "data.val_fraction", WrongValue),
        ((7, 26), "autoencoder.num_channels", WrongValue),
        ((8, 3), "autoencoder.batch_size", UnknownKey),
        ((10, 5), "autoencoder.training.batchsize", UnknownKey),
        ((12, 5), "autoencoder.training.learning_rate", DuplicateKey),
        ((13, 16), "autoencoder.training.optimizer", WrongValue),
        ((14, 18), "autoencoder.training.betas", WrongValue),
        ((17, 3), "device.precision", Contradiction),
    ];
    assert_eq!(found, expected, "{errors:#}");
    let helps: Vec<_> = errors.errors().iter().map(|error| error.help.as_str()).collect();
    assert_eq!(helps[0], "did you mean `seed`?");
    assert_eq!(helps[4], "`batch_size` belongs in `autoencoder.training`: move it there");
    assert_eq!(helps[5], "did you mean `batch_size`?");
    assert_eq!(helps[7], "did you mean `adam`?");
    assert!(errors.errors()[6].found.contains("line 11"));
}

#[test]
fn plain_text_shows_every_error() {
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  num_chanels: [8]\n  seed: x\n").unwrap_err();
    assert_eq!(errors.to_string(), "3 errors in test.yaml");
    let plain = format!("{errors:#}");
    let line =
        "test.yaml:3:3: autoencoder.num_chanels: unknown key: expected a key of this section, found `num_chanels`";
    assert!(plain.contains(line), "{plain}");
    assert!(plain.contains("did you mean `num_channels`?"), "{plain}");
}

#[test]
fn wrong_values_say_what_was_found_and_expected() {
    for (setting, found, expected) in [
        ("autoencoder.training.batch_size=0", "0", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=1.5", "1.5", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=\"2\"", "the text \"2\"", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=", "nothing", "an integer from 1 to 65536"),
        ("autoencoder.training.learning_rate=0", "0", "a number above 0"),
        ("autoencoder.training.learning_rate=.nan", "NaN", "a number above 0"),
        ("autoencoder.training.learning_rate=1e999", "inf", "a number above 0"),
        ("autoencoder.training.use_perceptual_loss=1", "1", "true or false"),
        ("autoencoder.training.recompute=decoder", "the text \"decoder\"", "a list, each entry text"),
        ("autoencoder.training.discriminator=7", "7", "a section"),
        ("autoencoder.training.discriminator.num_scales=99", "99", "an integer from 1 to 8"),
        ("data.normalize=median", "the text \"median\"", "one of percentile, min_max, z_score, none"),
        ("data.percentiles=[1, 2, 3]", "a list of 3", "a list of 2, each entry a number from 0 to 100"),
        ("data.cache_rate=-0.1", "-0.1", "a number from 0 to 1"),
        ("data.flip=[true]", "a list of 1", "one value or a list of 3, each true or false"),
        ("seed=-1", "-1", "an integer of at least 0"),
        ("seed=99999999999999999999999", "1e23", "an integer of at least 0"),
        ("device.name={a: 1}", "a section", "text"),
        ("device.loss_scale=high", "the text \"high\"", "dynamic or a number above 0"),
    ] {
        let error = error_of(setting);
        assert_eq!((error.found.as_str(), error.expected.as_str()), (found, expected), "{setting}");
        assert_eq!(error.kind, ConfigErrorKind::WrongValue);
        assert_eq!(error.place, Place::Override(setting.to_owned()));
        assert!(error.to_string().starts_with(&format!("--set {}", setting.escape_debug())), "{error}");
    }
}

#[test]
fn every_wrong_entry_of_a_list_is_reported() {
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  num_channels:\n    - 32\n    - x\n    - 0\n").unwrap_err();
    let positions: Vec<_> = errors.errors().iter().filter_map(ConfigError::position).collect();
    assert_eq!(positions, [(5, 7), (6, 7)]);
}

#[test]
fn unknown_keys_get_the_advice_that_fits() {
    for (setting, help) in [
        ("autoencoder.training.learning-rate=1", "did you mean `learning_rate`?"),
        ("training.batch_size=1", "`training` belongs in `autoencoder`: move it there"),
        ("patch_size=32", "`patch_size` belongs in `data`: move it there"),
        ("num_layers_d=3", "`num_layers_d` belongs in `autoencoder.training.discriminator`: move it there"),
        ("autoencoder.max_step=3", "did you mean `max_steps`? It belongs in `autoencoder.training`"),
        (
            "autoencoder.training.n_epochs=9",
            "set max_epochs, or max_steps in optimizer steps, in the section `training`",
        ),
        (
            "device.zzz=9",
            "remove `device.zzz`; the keys here are allocator, loss_scale, memory_limit, mixed_precision, name, precision",
        ),
    ] {
        let error = error_of(setting);
        assert_eq!((error.kind, error.help.as_str()), (ConfigErrorKind::UnknownKey, help), "{setting}");
    }
    let guide = error_of("data.pin_memory=true");
    assert!(guide.help.contains("PyTorch"));
}

#[test]
fn missing_keys_are_reported_at_their_section() {
    let errors = parse("seed: 1\nautoencoder:\n  latent_channels: 4\n").unwrap_err();
    let found: Vec<_> =
        errors.errors().iter().map(|error| (error.kind, error.key.as_str(), error.position())).collect();
    assert_eq!(
        found,
        [
            (ConfigErrorKind::Contradiction, "data.paths", None),
            (ConfigErrorKind::MissingKey, "autoencoder.num_channels", Some((2, 1))),
        ],
    );
    let empty = parse("").unwrap_err();
    assert!(empty.errors().iter().any(|error| error.key == "autoencoder.num_channels"), "{empty:#}");
    let list = parse("[1, 2]").unwrap_err();
    assert_eq!((list.errors().len(), list.errors()[0].expected.as_str()), (1, "a section"), "{list:#}");
}

#[test]
fn contradictions_are_found_and_located() {
    for (setting, key) in [
        ("autoencoder.norm_num_groups=24", "autoencoder.norm_num_groups"),
        ("autoencoder.num_channels=[16, 32]", "autoencoder.norm_num_groups"),
        ("autoencoder.num_channels=[]", "autoencoder.num_channels"),
        ("autoencoder.attention_levels=[true]", "autoencoder.attention_levels"),
        ("autoencoder.num_res_blocks=[1, 1, 1]", "autoencoder.num_res_blocks"),
        ("data.patch_size=33", "data.patch_size"),
        ("data.voxel_size=[32, 33, 32]", "data.voxel_size"),
        ("data.percentiles=[99.5, 0.5]", "data.percentiles"),
        ("data.phantom={count: 2}", "data.phantom"),
        ("data.paths=[]", "data.paths"),
        ("autoencoder.training.warmup_steps=2000", "autoencoder.training.warmup_steps"),
        ("autoencoder.training.adversarial_start_step=5", "autoencoder.training.adversarial_start_step"),
        ("device={mixed_precision: true, precision: f32}", "device.precision"),
        ("device.loss_scale=512", "device.loss_scale"),
        ("data={paths: [a], voxel_size: 32, spacing: 2}", "data.spacing"),
        ("data.num_workers=5000", "data.num_workers"),
    ] {
        let error = error_of(setting);
        assert_eq!((error.kind, error.key.as_str()), (ConfigErrorKind::Contradiction, key), "{setting}");
    }
    let two = parse("autoencoder: {num_channels: [32]}\ndata:\n  spacing: 2\n  val_fraction: 3\n").unwrap_err();
    let places: Vec<_> = two.errors().iter().map(|error| (error.key.as_str(), error.position())).collect();
    assert_eq!(places, [("data.paths", Some((2, 1))), ("data.val_fraction", Some((4, 17)))]);
    let groups = error_of("autoencoder.norm_num_groups=24");
    assert_eq!(groups.help, "set `norm_num_groups` to 32 or a divisor of it");
    let grid = error_of("data.voxel_size=[32, 33, 32]");
    assert_eq!(grid.help, "use [32, 34, 32], or fewer levels in `num_channels`");
}

#[test]
fn a_second_document_is_named() {
    let errors = parse(&format!("{MINIMAL}---\nb: 2\n")).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors:#}") };
    assert_eq!((error.found.as_str(), error.position()), ("a second one", Some((3, 1))), "{errors:#}");
    assert!(error.help.contains("a file of its own"), "{errors:#}");
}

#[test]
fn a_wrong_value_causes_no_second_error() {
    assert_eq!(error_of("autoencoder.num_channels=[x, 32, 64]").kind, ConfigErrorKind::WrongValue);
    assert_eq!(error_of("autoencoder.attention_levels=[1]").kind, ConfigErrorKind::WrongValue);
    assert_eq!(error_of("data.paths=3").kind, ConfigErrorKind::WrongValue);
}

#[test]
fn overrides_win_and_make_sections() {
    let config = parse_set(&[
        "autoencoder.num_channels=[8, 16, 32]",
        "autoencoder.norm_num_groups = 4",
        "autoencoder.norm_num_groups=8",
        "autoencoder.training.discriminator.num_layers_d=2",
        "device.loss_scale=512",
        "device.precision=f16",
        "data.patch_size=32",
    ])
    .unwrap();
    assert_eq!(config.autoencoder().unwrap().num_channels, [8, 16, 32]);
    assert_eq!(config.autoencoder().unwrap().norm_num_groups, 8);
    let discriminator = config.autoencoder().unwrap().training.objective.discriminator.clone();
    assert_eq!(discriminator.unwrap().num_layers_d, 2);
    assert_eq!(
        (config.device.loss_scale, config.device.resolved_precision()),
        (LossScale::Static(512.0), Precision::F16)
    );
    assert_eq!(config.data.patch_size, Some([32; 3]));
    let renamed = Config::parse(
        "data: {paths: [a]}\nautoencoder: {channels: [64]}\n",
        "test.yaml",
        &["autoencoder.num_channels=[32]".to_owned()],
    );
    assert_eq!(renamed.unwrap().autoencoder().unwrap().num_channels, [32]);
}

#[test]
fn bad_overrides_are_errors_of_their_own() {
    for setting in ["seed", "=3", "data..paths=3", "data.paths.deep=3", "data=[1", "seed=1: 2: 3"] {
        let error = error_of(setting);
        assert_eq!(error.kind, ConfigErrorKind::Override, "{error}");
        assert!(error.to_string().starts_with(&format!("--set {setting}: wrong override")), "{error}");
    }
}

#[test]
fn num_channels_has_a_second_name() {
    let config = parse("data: {paths: [a]}\nautoencoder: {channels: [32, 64]}\n").unwrap();
    assert_eq!(config.autoencoder().unwrap().num_channels, [32, 64]);
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  channels: [32]\n  num_channels: [64]\n").unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!((error.kind, error.position()), (ConfigErrorKind::DuplicateKey, Some((3, 3))));
    assert_eq!(errors.errors().len(), 1);
}

#[test]
fn syntax_errors_have_a_place_and_do_not_hide_bad_overrides() {
    let text = "data:\n  paths: [a\nautoencoder: 1\n";
    let errors = Config::parse(text, "test.yaml", &["seed".to_owned()]).unwrap_err();
    let kinds: Vec<_> = errors.errors().iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ConfigErrorKind::Syntax, ConfigErrorKind::Override], "{errors:#}");
    assert_eq!(errors.errors()[0].position(), Some((3, 12)));
    let Place::Text { offset, .. } = errors.errors()[0].place else { panic!("no place") };
    assert_eq!(&text[offset..offset + 1], ":");
    let tab = parse("data:\n\tpaths: [a]\n").unwrap_err();
    assert_eq!((tab.errors()[0].kind, tab.errors()[0].position().unwrap().0), (ConfigErrorKind::Syntax, 2));
}

/// Every key away from its default, so that a key that is written under another name than it is
/// read by cannot hide.
fn all_keys_set(grid: &str) -> Config {
    let text = "\
seed: 18446744073709551615
data:
  phantom: {count: 3, shape: [16, 24, 32], noise: 0.07}
  channels: 2
  GRID
  normalize: z_score
  percentiles: [1, 99]
  patch_size: 16
  foreground_probability: 0.5
  flip: [true, false, true]
  intensity_jitter: 0.1
  augmentation: {rotation_axes: [false, true, true], rotation: {probability: 0.3, range: [-5, 10]}, noise: {probability: 1, range: [0, 0.3]}}
  val_fraction: 0.3
  val_patches: 4
  cache_rate: 0
  num_workers: 5
  prefetch: 3
autoencoder:
  in_channels: 2
  out_channels: 2
  num_channels: [8, 16]
  latent_channels: 4
  num_res_blocks: [1, 3]
  norm_num_groups: 4
  norm_eps: 1e-5
  attention_levels: [false, true]
  with_encoder_nonlocal_attn: true
  with_decoder_nonlocal_attn: true
  use_convtranspose: true
  include_fc: false
  use_combined_linear: true
  training:
    batch_size: 2
    gradient_accumulation_steps: 3
    use_gradient_checkpointing: true
    recompute: [\"decoder.*\", \"*\"]
    stream: [decoder.level_0]
    slab_planes: 4
    stream_keep: one
    cached_percent: 20
    use_perceptual_loss: true
    perceptual_weight: 0.002
    lpips: {weights: lpips_vgg.pt, network: vgg, planes: [depth, width], slice_share: 0.25}
    learning_rate: 3e-4
    kl_weight: 1e-7
    initial_deviation: 0.1
    adv_weight: 0.02
    reconstruction_loss: l2
    adversarial_loss: hinge
    adversarial_start_step: 10
    optimizer: adamw
    betas: [0.5, 0.9]
    epsilon: 1e-7
    weight_decay: 0.01
    lr_schedule: cosine
    warmup_steps: 5
    base_batch_size: 8
    max_steps: 77
    max_grad_norm: 1
    ema_decay: 0.999
    max_bad_steps: 3
    val_interval: 11
    visualize_interval: 12
    checkpoint_interval: 13
    keep_checkpoints: 4
    discriminator: {num_layers_d: 2, num_channels: 8, kernel_size: 3, num_scales: 2, learning_rate: 5e-4}
device:
  name: cuda
  mixed_precision: true
  precision: f16
  loss_scale: 512
";
    parse(&text.replace("GRID", grid)).unwrap_or_else(|errors| panic!("{errors:#}"))
}

/// Every key of the other systems away from its default.
fn other_systems() -> [Config; 5] {
    const TRAINING: &str =
        "batch_size: 2, gradient_accumulation_steps: 3, recompute: [\"*\"], learning_rate: 3e-4, max_steps: 77";
    const VOXELS: &str = "reconstruction_loss: l1, occupancy_weight: 4, occupancy_threshold: 0.2";
    const PERCEPTUAL: &str =
        "use_perceptual_loss: true, perceptual_weight: 0.2, lpips: {weights: w.pt, network: alex, planes: [height]}";
    const CODEBOOK: &str = "codebook: {num_embeddings: 9, commitment_cost: 0.5, decay: 0.7, restart_below: 0.1}";
    const RADAR: &str = "data: {radar: {count: 3, shape: [8, 16, 16], vehicles: 2, speckle: 0.1}, normalize: none}";
    let vae = |more: &str, own: &str| {
        format!(
            "{RADAR}\nvae3d:\n  vae_type: lightweight\n  in_channels: 3\n  latent_channels: 5\n  {more}\n  \
             training: {{{TRAINING}, {VOXELS}, kl_weight: 0.1{own}, {PERCEPTUAL}}}\n"
        )
    };
    let vq_vae = format!(
        "{RADAR}\nvqvae:\n  in_channels: 4\n  channels: [8, 16]\n  num_res_channels: [4, 5]\n  num_res_layers: 2\n  \
         embedding_dim: 7\n  {CODEBOOK}\n  training: {{{TRAINING}, {VOXELS}}}\n"
    );
    let forecaster = format!(
        "forecaster: {{model_type: 3dcnn_lstm_lite, in_channels: 2, hidden_channels: 8, truncate_steps: 4, training: \
         {{{TRAINING}, forecast_loss: l1}}}}\nsequence:\n  advection: {{steps: 99, shape: 24, flow: rotating, speed: 2.5, \
         turn_steps: 30, forcing: 0.1}}\n  input_days: 5\n  predict_days: 2\n  use_channels: [2, 1]\n  \
         target_channel: 1\n  downsample: 2\n  normalize: min_max\n  percentiles: [1, 99]\n  val_fraction: 0.3\n  \
         num_workers: 1\n  prefetch: 4\n"
    );
    let operator = format!(
        "operator: {{model: neuraloperator, in_channels: 2, widths: [6, 6, 6], modes: [[5, 4], [3, 2]], projection_channels: [7, 5], \
         rank: 0.3, training: {{{TRAINING}, operator_loss: l1}}}}\nsequence:\n  paths: weather.nc\n  data_key: t2m\n  axes: thwc\n  \
         shape: [48, 64]\n  sample_factor: 2\n  pointwise: true\n  val_fraction: 0.3\n"
    );
    [vae(CODEBOOK, ""), vae("codebook: null", ", initial_deviation: 0.1"), vq_vae, forecaster, operator]
        .map(|text| parse(&text).unwrap_or_else(|errors| panic!("{errors:#}\n{text}")))
}

/// Every key of a diffusion model away from its default, with each scheduler.
fn diffusion_systems() -> [Config; 3] {
    [
        "name: ddpm, num_train_timesteps: 500, schedule: cosine, beta_start: 0.001, beta_end: 0.01, prediction_type: sample",
        "name: rflow, num_train_timesteps: 500, use_discrete_timesteps: false, sample_method: logit-normal, loc: 0.5, scale: 2, \
         use_timestep_transform: true, base_img_size_numel: 4096",
        "name: edm, sigma_min: 0.01, sigma_max: 40, sigma_data: 0.5, rho: 5, p_mean: -1, p_std: 1",
    ]
    .map(|scheduler| {
        let text = format!(
            "data: {{phantom: {{count: 3}}, patch_size: 32}}\n\
             latents: {{autoencoder: runs/a, downsampling: [4, 4, 2], samples_per_volume: 9, scale_factor: 0.5}}\n\
             diffusion:\n  in_channels: 4\n  num_channels: [8, 16]\n  num_res_blocks: [1, 2]\n  attention_levels: true\n  \
             num_head_channels: [4, 8]\n  norm_num_groups: 4\n  norm_eps: 1.0e-5\n  resblock_updown: true\n  dropout: 0.2\n  \
             training: {{loss: l1, num_inference_steps: 7, ema_decay: null}}\nscheduler: {{{scheduler}}}\n"
        );
        parse(&text).unwrap_or_else(|errors| panic!("{errors:#}\n{text}"))
    })
}

#[test]
fn a_diffusion_model_is_trained_on_latents_of_the_volumes_that_are_named() {
    let [config, flow, _] = diffusion_systems();
    assert_eq!((config.system_name(), config.extent()), ("diffusion", Some([8, 8, 16])));
    assert_eq!(config.training().ema_decay, None);
    let (sigmas, SystemSection::Diffusion(section)) = (flow.to_yaml(), &flow.system) else { panic!("{flow:?}") };
    assert!(sigmas.contains("sample_method: logit-normal") && !sigmas.contains("beta_start"), "{sigmas}");
    assert_eq!(section.scheduler.most_steps(), Some(500));
    let text = "data: {phantom: {count: 3}, patch_size: 32}\nlatents: {autoencoder: runs/a}\n";
    let with = |diffusion: &str| parse(&format!("{text}diffusion: {{{diffusion}}}\n"));
    let config = with("num_channels: [16, 32, 64], num_head_channels: 64").unwrap();
    let SystemSection::Diffusion(section) = &config.system else { panic!("{config:?}") };
    assert_eq!((section.norm_num_groups, config.training().ema_decay), (16, Some(0.995)));
    for (diffusion, key, help) in [
        ("num_channels: [8], out_channels: 6", "diffusion.out_channels", "leave `out_channels` out"),
        ("num_channels: [8, 8, 8, 8, 8]", "data.patch_size", "use [64, 64, 64]"),
        ("num_channels: [8], norm_num_groups: 3", "diffusion.norm_num_groups", "8 or a divisor of it"),
        ("num_channels: [8], num_head_channels: 3", "diffusion.num_head_channels", "set it to 2"),
        ("num_channels: [8], scheduler: {clip_sample: true}", "diffusion.scheduler.clip_sample", "remove"),
        ("num_channels: [8], scheduler: {beta_end: 2}", "diffusion.scheduler.beta_end", "0.0195"),
        ("num_channels: [8], scheduler: {name: edm, sigma_min: 99}", "diffusion.scheduler.sigma_min", "0.002"),
        ("num_channels: [8], scheduler: {name: edm, beta_end: 0.02}", "diffusion.scheduler.beta_end", ""),
        ("num_channels: [8], spatial_dims: 3", "diffusion.spatial_dims", "three spatial dimensions"),
        (
            "num_channels: [8], training: {num_inference_steps: 60}, scheduler: {num_train_timesteps: 50}",
            "diffusion.training.num_inference_steps",
            "use 50",
        ),
        (
            "num_channels: [8], training: {linear_baseline: 1}",
            "diffusion.training.linear_baseline",
            "one latent has no covariance",
        ),
        (
            "num_channels: [8], scheduler: {name: edm}, consistency: {}, training: {linear_baseline: 8}",
            "diffusion.training.linear_baseline",
            "remove it",
        ),
    ] {
        let errors = with(diffusion).expect_err(diffusion);
        let found: Vec<_> = errors.errors().iter().map(|error| (error.key.as_str(), error.help.as_str())).collect();
        assert!(found.len() == 1 && found[0].0 == key && found[0].1.contains(help), "{diffusion}: {found:?}");
    }
    let errors = parse("data: {phantom: {count: 3}}\ndiffusion: {num_channels: [8]}\n").unwrap_err();
    assert_eq!(errors.errors()[0].key, "latents.autoencoder", "{errors:#}");
}

#[test]
fn a_configuration_chooses_its_system_by_its_section() {
    let systems = other_systems().map(|config| (config.system_name(), config.training().max_steps));
    assert_eq!(systems, [("vae3d", 77), ("vae3d", 77), ("vqvae", 77), ("forecaster", 77), ("operator", 77)]);
    let config = &other_systems()[3];
    assert_eq!(config.sequence.as_ref().unwrap().advection.as_ref().unwrap().shape, [24, 24]);
    let yaml = config.to_yaml();
    assert!(!yaml.contains("data:") && yaml.contains("model_type: 3dcnn_lstm_lite"), "{yaml}");
    let errors = parse("data: {paths: [a]}\nautoencoder: {num_channels: [32]}\nvqvae: {channels: [8]}\n").unwrap_err();
    assert_eq!(errors.errors().len(), 1, "{errors:#}");
    assert!(errors.errors()[0].help.contains("one system"), "{errors:#}");
}

#[test]
fn what_a_system_is_trained_on_says_which_one_is_meant() {
    for text in ["input_days: 7\n", "sequence: {input_days: 7}\n"] {
        let errors = parse(text).unwrap_err();
        let found: Vec<_> = errors.errors().iter().map(|error| error.key.as_str()).collect();
        assert_eq!(found, ["sequence.paths"], "{errors}");
    }
}

#[test]
fn errors_of_every_system_are_reported_at_once() {
    let text = "\
vae3d:
  vae_type: ultra_light
  training: {batch_size: 0, reconstruction_loss: l3, warmup_steps: 5, max_steps: 2}
data: {radar: {count: 2}, speckle: 1}
";
    let errors = parse(text).unwrap_err();
    let keys: Vec<_> = errors.errors().iter().map(|error| error.key.as_str()).collect();
    let expected = [
        "vae3d.vae_type",
        "vae3d.training.batch_size",
        "vae3d.training.warmup_steps",
        "vae3d.training.reconstruction_loss",
        "data.normalize",
        "data.speckle",
    ];
    assert_eq!(keys.iter().copied().collect::<std::collections::BTreeSet<_>>(), expected.into(), "{errors:#}");
    assert!(errors.errors()[0].help.contains("ultra_lightweight"), "{errors:#}");
    let errors = parse("forecaster: {model_type: gru}\nsequence: {input_days: 0}\n").unwrap_err();
    let keys: Vec<_> = errors.errors().iter().map(|error| error.key.as_str()).collect();
    for key in ["forecaster.model_type", "sequence.input_days", "sequence.paths"] {
        assert!(keys.contains(&key), "{errors:#}");
    }
}

#[test]
fn the_guides_flat_keys_are_read() {
    let radar = "vae_type: lightweight\nuse_amp: true\ngradient_accumulation_steps: 4\n\
        data: {radar: {count: 2}, normalize: none}\n";
    let config = parse(radar).unwrap_or_else(|errors| panic!("{errors:#}"));
    let SystemSection::Vae3d(section) = &config.system else { panic!("{config:?}") };
    assert_eq!((section.vae_type, config.training().gradient_accumulation_steps), (VaeType::Lightweight, 4));
    assert_eq!(config.device.resolved_precision(), Precision::F16);

    let climate = "model_type: 3dcnn_lstm\nbatch_size: 4\ninput_days: 20\npredict_days: 3\nuse_channels: [1, 0, 2]\n\
        sequence: {advection: {}}\n";
    let config = parse(climate).unwrap_or_else(|errors| panic!("{errors:#}"));
    let SystemSection::Forecaster(section) = &config.system else { panic!("{config:?}") };
    assert_eq!((section.model_type, section.in_channels, config.training().batch_size), (ModelType::Cnn3dLstm, 3, 4));
    let sequence = config.sequence.as_ref().unwrap();
    assert_eq!((sequence.input_days, sequence.predict_days, sequence.target_channel), (20, 3, Some(1)));

    // an error stands where the flat key does, an override wins over it, and a key has one place
    let wrong = parse(&climate.replace("batch_size: 4", "batch_size: x")).unwrap_err();
    assert_eq!(wrong.errors()[0].position(), Some((2, 13)), "{wrong:#}");
    for path in ["batch_size", "forecaster.training.batch_size"] {
        let config = Config::parse(climate, "test.yaml", &[format!("{path}=7")]).unwrap();
        assert_eq!(config.training().batch_size, 7, "{path}");
    }
    let twice = parse(&format!("{climate}forecaster: {{training: {{batch_size: 2}}}}\n")).unwrap_err();
    assert!(twice.errors()[0].help.contains("belongs in `forecaster.training`"), "{twice:#}");
}

#[test]
fn an_operator_is_for_the_fields_that_are_named() {
    let config = &other_systems()[4];
    assert_eq!(config.extent(), Some([1, 24, 32]), "what is seen of files that say their size");
    let flows = "sequence: {navier_stokes: {size: 32}, input_days: 3, predict_days: 2}\n";
    let with = |operator: &str| parse(&format!("{flows}operator: {{{operator}}}\n"));
    let config = with("").unwrap_or_else(|errors| panic!("{errors:#}"));
    let SystemSection::Operator(section) = &config.system else { panic!("{config:?}") };
    assert_eq!((&section.widths[..], &section.modes[..]), (&[20; 5][..], &[[12, 12]; 4][..]));
    let model = section.model(config.sequence.as_ref().unwrap());
    assert_eq!((model.in_channels, model.out_channels, config.extent()), (3, 2, Some([3, 32, 32])));
    let config = with("widths: 8, modes: [[9, 8], [4, 3]]").unwrap();
    let SystemSection::Operator(section) = &config.system else { panic!("{config:?}") };
    assert_eq!((&section.widths[..], &section.modes[..]), (&[8; 3][..], &[[9, 8], [4, 3]][..]));
    let conv = with("model: conv, widths: 16, num_layers: 3").unwrap();
    assert_eq!(conv.parameters("conv").unwrap(), 3 * 9 * 16 + 16 + 6 * (16 * 9 * 16 + 16 + 32) + 16 * 9 * 2 + 2 + 32);
    for (operator, key, said) in [
        ("model: SwinIR", "operator.model", "one of fno, neuraloperator, FNO2d, diffsr, conv"),
        ("widths: [8, 8], num_layers: 2", "operator.widths", "3"),
        ("modes: 12", "operator.modes", "a pair such as [12, 12]"),
        ("modes: [12, 0]", "operator.modes", "an integer from 1"),
        ("rank: 2", "operator.rank", "1"),
        ("model: neuraloperator, widths: [4, 8, 4], modes: [2, 2]", "operator.widths", "one width"),
        ("model: conv, widths: [8, 4]", "operator.widths", "one width"),
        ("model: conv, rank: 0.5", "operator.rank", "none"),
        ("training: {operator_loss: l3}", "operator.training.operator_loss", "relative_l2"),
    ] {
        let errors = with(operator).expect_err(operator);
        let found = &errors.errors()[0];
        assert!(found.key == key && found.expected.contains(said), "{operator}: {errors:#}");
    }
    let three = parse("operator: {}\nsequence: {navier_stokes: {size: 33}, sample_factor: 3}\n").unwrap_err();
    assert!(three.errors()[0].key == "sequence.sample_factor", "{three:#}");
}

/// `template_configs/Ocean/fno.yaml` of DiffSR, with `ns2d/fno.yaml` where it differs.
fn diffsr(data: &str) -> String {
    format!(
        "model:\n  name: 'FNO2d'\n  modes1: [15, 12, 9, 9, 9]\n  modes2: [15, 12, 9, 9, 9]\n  width: 64\n  fc_dim: 128\n  \
         layers: [16, 24, 24, 32, 32]\n  in_dim: 1\n  out_dim: 1\n  act: 'gelu'\n  pos_dim: 2\n  upsample_factor: [4, 4]\n\
         data:\n{data}  sample_factor: 4\n  eval_batchsize: 256\n  train_ratio: 0.98\n  valid_ratio: 0.01\n  \
         test_ratio: 0.01\n  subset: False\n  subset_ratio: 0.1\n  normalize: True\n  normalizer_type: 'PGN'\n\
         train:\n  random_seed: 7\n  cuda: True\n  device: 0\n  epochs: 500\n  patience: 10\n  eval_freq: 5\n  saving_best: True\n  \
         load_ckpt: False\n  saving_ckpt: True\n  ckpt_freq: 5\n  ckpt_max: 5\n  distribute: False\n  distribute_mode: 'DDP'\n  \
         device_ids: [0, 1, 2, 3]\noptimize:\n  optimizer: 'AdamW'\n  lr: 0.001\n  weight_decay: 0.001\n\
         schedule:\n  scheduler: 'StepLR'\n  step_size: 300\n  gamma: 0.5\n\
         log:\n  verbose: True\n  log: True\n  log_dir: '/logs/Ocean'\n  wandb: True\n  wandb_project: 'DiffSR'\n"
    )
}

#[test]
fn files_of_diffsr_are_read_as_they_are_and_what_is_rejected_is_named() {
    let ocean = diffsr(
        "  name: 'Ocean'\n  data_path: \"/data/ocean.h5\"\n  data_key: 'uo_data'\n  shape: [128, 128]\n  train_batchsize: 256\n",
    );
    let config = parse(&ocean).unwrap_or_else(|errors| panic!("{errors:#}"));
    let training = config.training();
    assert_eq!((training.max_epochs, training.max_steps), (Some(500.0), u64::MAX));
    assert_eq!((training.lr_schedule, training.lr_step_epochs), (ScheduleKind::Step, Some(300.0)));
    assert_eq!((training.lr_gamma, training.steps(Some(4900))), (Some(0.5), 9571));
    assert!(config.notes.iter().any(|note| note.contains("patience")), "{:?}", config.notes);
    let SystemSection::Operator(section) = &config.system else { panic!("{config:?}") };
    let fields = config.sequence.as_ref().unwrap();
    assert_eq!((section.model, config.seed, config.training().batch_size), (OperatorModel::Diffsr, 7, 256));
    assert_eq!((config.training().learning_rate, config.training().weight_decay), (1e-3, 1e-3));
    assert_eq!(section.projection_channels, [128, 32]);
    let model = section.model(fields);
    let expected =
        FnoConfig::diffsr_2d([1, 1], vec![16, 24, 24, 32, 32], [15, 12, 9, 9].map(|modes| vec![modes; 2]).into(), 4);
    assert_eq!(model, expected);
    assert_eq!(
        (fields.axes.as_deref(), fields.data_key.as_deref(), fields.pointwise),
        (Some("thwc"), Some("uo_data"), true)
    );
    assert!((fields.val_fraction - 0.02).abs() < 1e-12);
    assert_eq!(config.extent(), Some([1, 32, 32]), "a plan needs no file");
    assert_eq!(parse(&config.to_yaml()).unwrap(), Config { notes: Vec::new(), ..config });

    let steps = ["operator.training.max_steps=9000", "operator.training.lr_schedule=cosine"].map(String::from);
    let config = Config::parse(&ocean, "fno.yaml", &steps).unwrap_or_else(|errors| panic!("{errors:#}"));
    let training = config.training();
    assert_eq!((training.max_steps, training.steps(Some(4900)), training.lr_gamma), (9000, 9000, None));
    let flows =
        diffsr("  name: 'NavierStokes2D'\n  data_path: 'V1e-5.mat'\n  shape: [64, 64]\n  train_batchsize: 512\n");
    let config = Config::parse(&flows, "fno.yaml", &steps).unwrap_or_else(|errors| panic!("{errors:#}"));
    let fields = config.sequence.as_ref().unwrap();
    assert_eq!((fields.axes.as_deref(), fields.data_key.as_deref()), (Some("thwn"), Some("u")));

    for (from, to, key, said) in [
        ("'FNO2d'", "'SwinIR'", "operator.model", "one of fno, neuraloperator, FNO2d, diffsr, conv"),
        ("subset: False", "subset: True", "data", "a key"),
        ("'StepLR'", "'OneCycleLR'", "operator.training.lr_schedule", "constant, linear, cosine, step"),
        ("lr: 0.001", "lr: fast", "operator.training.learning_rate", "a number"),
        ("'PGN'", "'PNG'", "data", "a key"),
    ] {
        let errors = parse(&ocean.replace(from, to)).expect_err(to);
        let found = errors.errors().iter().find(|error| error.key.starts_with(key));
        assert!(found.is_some_and(|error| error.expected.contains(said)), "{to}: {errors:#}");
    }
}

/// `template_configs/ns2d/sr3.yaml` of DiffSR, with `ddpm.yaml` where it differs.
fn diffsr_unet(name: &str, multiples: &str, beta: &str) -> String {
    let betas =
        format!("    schedule: 'linear'\n    n_timestep: 2000\n    linear_start: {beta}\n    linear_end: 2e-2\n");
    let file =
        diffsr("  name: 'NavierStokes2D'\n  data_path: 'V1e-5.mat'\n  shape: [64, 64]\n  train_batchsize: 160\n");
    let rest = file.split_once("data:\n").unwrap().1.replace("sample_factor: 4", "sample_factor: 2");
    format!(
        "model:\n  name: '{name}'\n  in_channel: 2\n  out_channel: 1\n  inner_channel: 64\n  channel_mults: {multiples}\n  \
         attn_res: [16]\n  res_blocks: 2\n  dropout: 0.2\n  image_size: 64\n  channels: 1\n  conditional: True\n  \
         n_iter: 10000\n  loss_type: 'lploss'\ndata:\n{rest}beta_schedule:\n  train:\n{betas}  val:\n{betas}"
    )
}

#[test]
fn diffusion_models_of_diffsr_are_read() {
    let read = |text: &str| Config::parse(text, "sr3.yaml", &[]);
    for (name, multiples, beta, parameters) in
        [("SR3", "[1,2,4,8,8]", "1e-6", 93_868_033), ("DDPM", "[1,1,2,2,4,4]", "1e-4", 26_448_129)]
    {
        let text = diffsr_unet(name, multiples, beta);
        let config = read(&text).unwrap_or_else(|errors| panic!("{errors:#}"));
        let SystemSection::SuperResolution(section) = &config.system else { panic!("{config:?}") };
        assert_eq!(section.model().num_parameters(), parameters);
        let (unet, training) = (section.network.diffusion().unwrap().0, config.training());
        assert_eq!((section.in_channels, section.upscale_factor, unet.dropout), (1, 2, 0.2));
        assert_eq!((unet.scheduler.num_train_timesteps, unet.scheduler.beta_end), (2000, 2e-2));
        assert_eq!(format!("{:e}", unet.scheduler.beta_start), beta);
        assert_eq!(section.training.objective.loss, SuperResolutionLoss::RelativeL2);
        assert_eq!((training.batch_size, training.learning_rate, config.seed), (160, 1e-3, 7));
        assert_eq!(config.extent(), Some([1, 32, 32]), "a plan needs no file");
        assert_eq!(parse(&config.to_yaml()).unwrap(), Config { notes: Vec::new(), ..config });
    }
    let sr3 = diffsr_unet("SR3", "[1,2,4,8,8]", "1e-6");
    for (from, to, key, said) in [
        ("'lploss'", "'l3'", "super_resolution.training.loss", "one of l2, l1, relative_l2"),
        ("'linear'", "'jsd'", "super_resolution.scheduler.schedule", "one of linear_beta"),
        ("conditional: True", "conditional: False", "model", "a key"),
        ("dropout: 0.2", "dropout: high", "super_resolution.dropout", "a number"),
        ("[1,2,4,8,8]", "[1,2,4,8,8,8,8,8]", "super_resolution.num_channels", "multiples of"),
    ] {
        let errors = read(&sr3.replace(from, to)).expect_err(to);
        let found = errors.errors().iter().find(|error| error.key.starts_with(key));
        assert!(found.is_some_and(|error| error.expected.contains(said)), "{to}: {errors:#}");
    }
}

#[test]
fn networks_of_diffsr_that_refine_fields_at_once_are_read() {
    let data =
        diffsr("  name: 'NavierStokes2D'\n  data_path: 'V1e-5.mat'\n  shape: [64, 64]\n  train_batchsize: 512\n");
    let data = data.split_once("data:\n").unwrap().1;
    for (keys, parameters) in [
        ("name: 'UNet2d'\n  init_features: 64\n", 31_036_481),
        ("name: 'EDSR'\n  hidden_channels: 128\n  n_res_blocks: 16\n  upscale_factor: 4\n", 6_053_377),
    ] {
        let text = format!("model:\n  {keys}  in_channels: 1\n  out_channels: 1\ndata:\n{data}");
        let config = Config::parse(&text, "unet.yaml", &[]).unwrap_or_else(|errors| panic!("{errors:#}"));
        let SystemSection::SuperResolution(section) = &config.system else { panic!("{config:?}") };
        assert_eq!((section.model().num_parameters(), section.upscale_factor), (parameters, 4));
        assert_eq!((config.training().batch_size, config.extent()), (512, Some([1, 16, 16])));
        assert_eq!(parse(&config.to_yaml()).unwrap(), Config { notes: Vec::new(), ..config });
    }
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
fn hostile_text_is_an_error_and_soon() {
    let bomb = (1..10).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, i| {
        let line: Vec<String> = vec![format!("*a{}", i - 1); 9];
        format!("{text}a{i}: &a{i} [{}]\n", line.join(", "))
    });
    let texts = [
        "a: 1\n".repeat(1 << 21),
        "[".repeat(500_000),
        "[".repeat(9_000),
        "[\n".repeat(100_000),
        "[".repeat(40) + &"]".repeat(40),
        "- ".repeat(500_000),
        "- ".repeat(4_000),
        format!(
            "{{{}}}",
            (0..2_000).map(|i| format!("k{i}: 1,{}", if i % 500 == 0 { '\n' } else { ' ' })).collect::<String>()
        ),
        (0..400).map(|depth| " ".repeat(depth) + "a:\n").collect(),
        bomb,
        "a: &a [*a]\n".into(),
        "<<: {seed: 1}\n".into(),
        "? [seed]\n: 1\n".into(),
        "a: 1\n---\nb: 2\n".into(),
        "\0\u{1}\u{7f}".into(),
        "seed: 1\rdata\u{85}: \u{2028}[".into(),
        "'".into(),
        "k".repeat(1_000_000) + ": 1",
        "k".repeat(9_000) + ": 1",
        format!("seed: {}", "9".repeat(9_000)),
        format!("seed: \"{}\"", "\\e[2J".repeat(1_000)),
        (0..19_000).map(|i| format!("key_{i}: 1\n")).collect(),
        "\u{feff}".into(),
        "   \n# nothing\n".into(),
    ];
    for text in texts {
        let start = Instant::now();
        let errors = parse(&text).unwrap_err();
        let shown = format!("{errors:#}");
        let head: String = text.chars().take(30).collect();
        assert!(start.elapsed() < Duration::from_secs(60), "{head:?}: {:?}", start.elapsed());
        assert!(!errors.errors().is_empty(), "{head:?}");
        assert!(shown.len() < 3_000_000, "{head:?}: {}", shown.len());
    }
}

#[test]
fn files_are_read_within_limits() {
    let folder = std::env::temp_dir().join(format!("leanburn-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let load = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        Config::load(&path, &[])
    };
    assert!(load("good.yaml", MINIMAL.as_bytes()).is_ok());
    assert!(load("bom.yaml", format!("\u{feff}{MINIMAL}").as_bytes()).is_ok());
    assert!(load("windows.yaml", MINIMAL.replace('\n', "\r\n").as_bytes()).is_ok());
    let kind = |result: Result<Config, ConfigErrors>| result.unwrap_err().errors()[0].kind;
    assert_eq!(kind(load("binary.yaml", b"seed: 1\n\xff\xfe\x00")), ConfigErrorKind::File);
    assert_eq!(kind(load("large.yaml", &vec![b'#'; 10 << 20])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(&folder.join("none.yaml"), &[])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(&folder, &[])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(Path::new(""), &[])), ConfigErrorKind::File);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn limits_are_named_before_the_text_is_parsed() {
    let kind = |text: String| parse(&text).unwrap_err().errors()[0].kind;
    assert_eq!(kind("#\n".repeat(1 << 20)), ConfigErrorKind::File);
    assert_eq!(kind(format!("seed: {}", "9".repeat(20_000))), ConfigErrorKind::File);
}

#[test]
fn a_byte_order_mark_shifts_nothing() {
    let errors = Config::parse(&format!("\u{feff}sead: 1\n{MINIMAL}"), "test.yaml", &[]).unwrap_err();
    assert!(matches!(errors.errors()[0].place, Place::Text { line: 1, column: 1, offset: 0, length: 4 }));
}

#[test]
fn places_count_characters_and_bytes() {
    let errors = parse("data: {paths: [\"größe\"], seed: 1}\nautoencoder: {num_channels: [32]}\n").unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!(error.position(), Some((1, 26)));
    assert!(matches!(error.place, Place::Text { offset: 27, length: 4, .. }), "{:?}", error.place);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z:\\[\\]{}#&*!|>'\"%@`\\-?, \n\t0-9.\u{e4}]{0,200}") {
        if let Err(errors) = Config::parse(&text, "test.yaml", std::slice::from_ref(&text)) {
            assert!(!format!("{errors:#}").is_empty());
        }
    }
}

#[test]
fn every_key_is_documented() {
    let documentation = include_str!("../../docs/configuration.md");
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

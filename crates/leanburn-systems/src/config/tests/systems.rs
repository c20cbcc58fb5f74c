//! Configurations of every system.

use leanburn_train::Precision;

use super::*;
use crate::forecaster::ModelType;
use crate::vae3d::VaeType;

/// Every key away from its default, so that a key that is written under another name than it is
/// read by cannot hide.
pub(super) fn all_keys_set(grid: &str) -> Config {
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
pub(super) fn other_systems() -> [Config; 5] {
    const TRAINING: &str =
        "batch_size: 2, gradient_accumulation_steps: 3, recompute: [\"*\"], learning_rate: 3e-4, max_steps: 77";
    const VOXELS: &str = "reconstruction_loss: l1, occupancy_weight: 4, occupancy_threshold: 0.2, channel_weights: WEIGHTS, \
        false_positive_weight: 0.5, occupancy_mass_weight: 0.25";
    const PERCEPTUAL: &str =
        "use_perceptual_loss: true, perceptual_weight: 0.2, lpips: {weights: w.pt, network: alex, planes: [height]}";
    const CODEBOOK: &str = "codebook: {num_embeddings: 9, commitment_cost: 0.5, decay: 0.7, restart_below: 0.1}";
    const RADAR: &str = "data: {radar: {count: 3, shape: [8, 16, 16], vehicles: 2, speckle: 0.1}, normalize: none}";
    let vae = |more: &str, own: &str| {
        format!(
            "{RADAR}\nvae3d:\n  vae_type: lightweight\n  num_res_blocks: 2\n  in_channels: 3\n  latent_channels: 5\n  {more}\n  \
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
        .map(|text| {
            text.replace("WEIGHTS", if text.contains("in_channels: 3") { "[4, 0.2, 1]" } else { "[4, 0.2, 1, 0]" })
        })
        .map(|text| parse(&text).unwrap_or_else(|errors| panic!("{errors:#}\n{text}")))
}

/// Every key of a diffusion model away from its default, with each scheduler.
pub(super) fn diffusion_systems() -> [Config; 3] {
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
    for section in ["vae3d: {in_channels: 2", "vqvae: {channels: [8], in_channels: 2"] {
        let text = format!(
            "data: {{radar: {{count: 2}}, normalize: none}}\n{section}, training: {{channel_weights: [1, 2, 3]}}}}\n"
        );
        let errors = parse(&text).unwrap_err();
        let system = section.split(':').next().unwrap();
        assert_eq!(errors.errors()[0].key, format!("{system}.training.channel_weights"), "{errors:#}");
        assert!(errors.errors()[0].expected.contains("each of 2 channels"), "{errors:#}");
    }
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

#[test]
fn what_is_named_after_an_error_is_one() {
    let is_error =
        |text: &str, metric: &str| parse(text).unwrap_or_else(|errors| panic!("{errors:#}")).is_error(metric);
    let operator = "operator: {}\nsequence: {navier_stokes: {size: 32}}\n";
    for metric in ["relative_l2", "relative_l2_lead_3", "relative_l2_persistence", "top_octave_error"] {
        assert!(is_error(operator, metric), "{metric}");
    }
    for metric in ["skill", "top_octave_ratio", "relative_l2norm", "relative"] {
        assert!(!is_error(operator, metric), "{metric}");
    }
    let diffusion = "data: {phantom: {count: 3}, patch_size: 32}\nlatents: {autoencoder: runs/a}\ndiffusion: {num_channels: [32]}\n";
    assert!(
        is_error(diffusion, "loss_noise_2") && is_error(diffusion, "loss_linear") && !is_error(diffusion, "ms_ssim")
    );
}

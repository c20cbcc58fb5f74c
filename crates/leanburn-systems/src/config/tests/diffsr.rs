//! Files of DiffSR.

use leanburn_nn::models::FnoConfig;
use leanburn_train::ScheduleKind;

use super::*;
use crate::operator::OperatorModel;
use crate::super_resolution::SuperResolutionLoss;

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

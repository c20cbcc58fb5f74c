//! docs/guides.md: every line is read as people would use it.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;
use common::Place;
use leanburn_cli::command::Command;
use leanburn_systems::{Config, recipes};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/guides.md");

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    _command: Command,
}

/// A line of a table.
struct Line {
    guide: String,
    here: String,
}

/// The small configuration before each table, and its lines.
fn tables() -> Vec<(String, Vec<Line>)> {
    let mut tables = Vec::new();
    for section in PAGE.split("\n## ").skip(1) {
        let yaml = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the guide"));
        let lines = rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(cells.len() == 3 || cells.len() == 2, "{row}");
            Line { guide: cells[0].into(), here: cells[1].into() }
        });
        tables.push((yaml.into(), lines.collect()));
    }
    tables
}

/// The text in backticks, if a cell is that alone.
fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`').filter(|text| !text.contains('`'))
}

/// `a.b=c` for every leaf of YAML.
fn overrides(yaml: &str) -> Vec<String> {
    fn leaves(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    leaves(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, found);
                }
            }
            value => drop(found.insert(path.into(), value.to_string())),
        }
    }
    let value: Value = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
    assert!(value.is_object(), "{yaml}");
    let mut found = BTreeMap::new();
    leaves("", &value, &mut found);
    found.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn check_command(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("{command}: {error}"));
    if let ["leanburn", "init", name] = words[..] {
        assert!(recipes().iter().any(|recipe| recipe.name == name), "{name}");
    }
}

#[test]
fn every_line_is_read() {
    let [mut snippets, mut commands, mut others] = [0; 3];
    for (base, lines) in tables() {
        Config::parse(&base, "the base", &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(lines.len() > 5);
        for Line { guide, here } in lines {
            match code(&here) {
                Some(command) if command.starts_with("leanburn ") => {
                    check_command(command);
                    commands += 1;
                }
                Some(yaml) => {
                    let overrides = overrides(yaml);
                    Config::parse(&base, "guides.md", &overrides).unwrap_or_else(|errors| panic!("{guide}: {errors}"));
                    snippets += 1;
                }
                None => {
                    assert!(["nothing", "not yet"].contains(&here.as_str()), "{guide}: {here}");
                    // what is said not to be there is not there
                    if let Some(yaml) = code(&guide).filter(|text| here == "not yet" && text.contains(": ")) {
                        assert!(Config::parse(&base, "guides.md", &overrides(yaml)).is_err(), "{guide}");
                    }
                    others += 1;
                }
            }
        }
    }
    assert!(snippets > 50 && commands > 20 && others > 15, "{snippets} {commands} {others}");
}

/// What a guide writes as keys and flags stands on the page: `LEANBURN_GUIDES=FOLDER`, a file for each guide.
#[test]
#[ignore = "needs the guides, which are not ours to keep"]
fn no_key_and_no_flag_of_the_guides_is_left_out() {
    let folder = std::env::var("LEANBURN_GUIDES").expect("the folder of the guides");
    let mut missing = Vec::new();
    for file in std::fs::read_dir(Path::new(&folder)).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let flags = text.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 4);
        let blocks = text.split("```yaml").skip(1).filter_map(|rest| rest.split("```").next());
        let keys = blocks.flat_map(str::lines).filter_map(|line| line.split('#').next()?.trim().split_once(':'));
        let keys = keys.map(|(key, _)| key.trim_start_matches("- ")).filter(|key| !key.is_empty());
        let words = flags.chain(keys).map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_'));
        missing.extend(words.filter(|word| !PAGE.contains(word)).map(str::to_owned));
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A file as the guide for high-resolution autoencoders has them, with each of their keys.
const VOLUMES: &str = r#"
data:
  train_data_dir: "scans/train"
  val_data_dir: "scans/val"
  voxel_size: [256, 256, 64]
  cache_rate: 0
  num_workers: 1
  pin_memory: true
  augmentation: {enabled: true, random_flip_prob: 0.5}
autoencoder:
  spatial_dims: 3
  in_channels: 1
  out_channels: 1
  num_channels: [16, 32, 64]
  latent_channels: 3
  num_res_blocks: 1
  norm_num_groups: 8
  attention_levels: [false, false, true]
  downsample_factors: [2, 2]
  initial_downsample_factor: 1
  training:
    n_epochs: 500
    batch_size: 1
    learning_rate: 1.0e-4
    adv_weight: 0.01
    perceptual_weight: 0.001
    kl_weight: 1.0e-6
    use_perceptual_loss: false
    use_gradient_checkpointing: true
    gradient_accumulation_steps: 4
    autoencoder_warm_up_n_epochs: 10
    discriminator: {num_layers_d: 2, num_channels: 16}
    val_interval: 10
    save_interval: 50
    fast_dev_run: false
    fast_dev_run_batches: 2
  checkpoints: {output_dir: "outputs/autoencoder", save_best: true, resume_from: null}
  logging: {log_dir: "logs", log_interval: 50, visualize_interval: 10, num_visualize_samples: 2}
diffusion:
  spatial_dims: 3
  in_channels: 3
  out_channels: 3
  num_channels: [16, 32, 64]
  attention_levels: [false, false, true]
  num_head_channels: [0, 0, 64]
  num_res_blocks: 1
  scheduler: {num_train_timesteps: 1000, schedule: "scaled_linear_beta", beta_start: 0.0015, beta_end: 0.0195}
  training:
    n_epochs: 500
    batch_size: 1
    learning_rate: 1.0e-4
    val_interval: 10
    save_interval: 50
    generate_samples_interval: 10
    num_samples_to_generate: 2
    fast_dev_run: false
    fast_dev_run_batches: 2
  checkpoints: {autoencoder_path: "outputs/autoencoder/best_model.pt", output_dir: "outputs/diffusion", save_best: true, resume_from: null}
  logging: {log_dir: "logs", log_interval: 20, visualize_interval: 10, num_visualize_samples: 2}
sampling:
  num_inference_steps: 1000
  num_samples: 4
  output_dir: "samples"
  save_format: "nifti"
  pointcloud: {num_points: 100000, threshold: 0.1, method: "probabilistic"}
device: {use_cuda: true, gpu_id: 0, mixed_precision: true}
seed: 42
"#;

/// A file as the radar guide has it.
const RADAR: &str = r#"
data:
  dataset_dir: "./Data"
  batch_size: 2
  num_workers: 4
  train_split: 0.8
  alignment_size: 32
  use_augmentation: true
  target_size: [32, 128, 128]
  augmentation: {enable_flip: false, noise_prob: 0.2}
vae:
  config_type: "ultra_lightweight"
  in_channels: 4
  out_channels: 4
  latent_dim: 4
  kl_weight: 1.0e-6
  occupied_weight: 8.0
  channel_weights: [4.0, 0.2, 0.5, 0.2]
  false_positive_weight: 4.0
  occupancy_mass_weight: 1.0
  epochs: 100
  lr: 1.0e-4
  save_dir: "results/vae"
ldm:
  model_channels: 32
  channel_mult: [1, 2, 3]
  num_res_blocks: 1
  attention_resolutions: []
  sigma_data: 0.5
  sigma_max: 80.0
  sigma_min: 0.002
  rho: 7.0
  decoded_loss_weight: 0.05
  epochs: 200
  lr: 1.0e-4
  save_every: 10
  save_dir: "results/ldm"
cd:
  teacher_model_path: ""
  training_mode: "consistency_distillation"
  target_ema_mode: "fixed"
  start_ema: 0.95
  scale_mode: "fixed"
  start_scales: 40
  end_scales: 40
  epochs: 200
  distill_steps_per_iter: 50000
  loss_norm: "l2"
  lr: 5.0e-5
  save_dir: "results/cd"
optimization: {use_amp: false, gradient_accumulation_steps: 8, use_checkpoint: true, use_fp16: false, max_grad_norm: 1.0}
hardware: {device: "cuda", num_gpus: 2}
logging: {log_interval: 100, tensorboard: true, wandb: false}
inference: {max_infer_files: 100}
"#;

/// One stage of a file, as the configuration that it becomes.
fn stage(text: &str, stage: &str) -> Value {
    let config =
        Config::parse(text, "guide.yaml", &[format!("stage={stage}")]).unwrap_or_else(|errors| panic!("{errors}"));
    let yaml = config.to_yaml();
    assert!(!config.notes.is_empty());
    assert_eq!(
        Config::parse(&yaml, "again", &[]).unwrap().to_yaml(),
        yaml,
        "what a run writes is a configuration of ours"
    );
    serde_saphyr::from_str(&yaml).unwrap()
}

fn assert_has(config: &Value, expected: &[(&str, &str)]) {
    for (path, expected) in expected {
        let found = path.split('.').fold(config, |value, key| &value[key]);
        let expected: Value = serde_saphyr::from_str(expected).unwrap();
        let equal = found == &expected || found.as_f64().is_some_and(|found| expected.as_f64() == Some(found));
        assert!(equal, "{path}: {found}, expected {expected}");
    }
}

/// Each stage of a file of several is read as it is, and the last where none is named.
#[test]
fn a_file_with_several_stages_is_each_of_them() {
    let autoencoder = stage(VOLUMES, "autoencoder");
    assert_has(
        &autoencoder,
        &[
            ("data.paths", "[scans/train]"),
            ("data.voxel_size", "[256, 256, 64]"),
            ("data.flip", "[true, true, true]"),
            ("autoencoder.norm_num_groups", "8"),
            ("autoencoder.training.gradient_accumulation_steps", "4"),
            ("autoencoder.training.discriminator.num_channels", "16"),
            ("device.mixed_precision", "true"),
        ],
    );
    assert!(autoencoder["diffusion"].is_null() && autoencoder["latents"].is_null());
    let diffusion = stage(VOLUMES, "diffusion");
    assert_has(
        &diffusion,
        &[
            ("latents.autoencoder", "outputs/autoencoder"),
            ("latents.downsampling", "[4, 4, 4]"),
            // 32 groups, which the guide's program takes, do not divide 16 channels
            ("diffusion.norm_num_groups", "16"),
            ("diffusion.num_head_channels", "[0, 0, 64]"),
            ("diffusion.scheduler.beta_end", "0.0195"),
            ("diffusion.training.learning_rate", "1.0e-4"),
            ("diffusion.training.max_steps", "1000"),
        ],
    );
    let last = Config::parse(VOLUMES, "guide.yaml", &[]).unwrap();
    assert_eq!(last.to_yaml(), Config::parse(VOLUMES, "guide.yaml", &["stage=2".into()]).unwrap().to_yaml());
    for part in ["`diffusion`", "n_epochs", "max_steps", "val_data_dir", "sampling", "do not divide 16 channels"] {
        assert!(last.notes.iter().any(|note| note.contains(part)), "{part} in {:?}", last.notes);
    }

    let radar = stage(RADAR, "vae");
    assert_has(
        &radar,
        &[
            ("data.paths", "[./Data]"),
            ("data.voxel_size", "[32, 128, 128]"),
            ("data.val_fraction", "0.2"),
            ("data.normalize", "none"),
            ("vae3d.vae_type", "ultra_lightweight"),
            ("vae3d.training.occupancy_weight", "8.0"),
            ("vae3d.training.channel_weights", "[4.0, 0.2, 0.5, 0.2]"),
            ("vae3d.training.false_positive_weight", "4.0"),
            ("vae3d.training.occupancy_mass_weight", "1.0"),
            ("vae3d.training.batch_size", "2"),
            ("vae3d.training.max_grad_norm", "1.0"),
        ],
    );
    assert_has(
        &stage(RADAR, "ldm"),
        &[
            ("latents.autoencoder", "results/vae"),
            ("latents.downsampling", "[2, 4, 4]"),
            ("diffusion.in_channels", "4"),
            ("diffusion.num_channels", "[32, 64, 96]"),
            ("diffusion.attention_levels", "[false, false, false]"),
            ("diffusion.scheduler.name", "edm"),
            ("diffusion.scheduler.sigma_data", "0.5"),
            ("diffusion.training.gradient_accumulation_steps", "8"),
        ],
    );
    let notes = Config::parse(RADAR, "guide.yaml", &["stage=ldm".into()]).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("deviation of 1") && note.contains("sigma_data=1")), "{notes:?}");
    let distilled = stage(RADAR, "cd");
    assert_has(
        &distilled,
        &[
            ("diffusion.consistency.teacher", "results/ldm"),
            ("diffusion.consistency.start_scales", "40"),
            ("diffusion.consistency.loss_norm", "l2"),
            ("diffusion.training.learning_rate", "5.0e-5"),
            ("diffusion.num_channels", "[32, 64, 96]"),
        ],
    );
    let needed = Config::parse(RADAR, "guide.yaml", &[]).unwrap().needed_runs();
    let needed: Vec<_> = needed.into_iter().map(|run| (run.stage, run.weights)).collect();
    assert_eq!(needed, [(1, "results/vae/weights.safetensors".into()), (2, "results/ldm/weights.safetensors".into())]);
}

/// What is wrong in a guide's file is answered with what to write.
#[test]
fn mistakes_in_a_file_with_several_stages_are_named() {
    let errors = |text: &str, overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
        let errors = Config::parse(text, "guide.yaml", &overrides).expect_err("it is wrong");
        errors.errors().iter().map(|error| format!("{}: {} {}", error.key, error.found, error.help)).collect::<Vec<_>>()
    };
    let with = |one: &str, other: &str| {
        assert!(VOLUMES.contains(one) || RADAR.contains(one), "{one}");
        VOLUMES.replacen(one, other, 1)
    };
    let cases = [
        (
            with("latent_channels: 3", "latent_channels: 16"),
            &[][..],
            ["diffusion.in_channels: 3", "write `in_channels: 16`"],
        ),
        (
            with("downsample_factors: [2, 2]", "downsample_factors: [4, 2]"),
            &["stage=autoencoder"],
            ["autoencoder.downsample_factors", "add a level"],
        ),
        (
            with("initial_downsample_factor: 1", "initial_downsample_factor: 4"),
            &["stage=1"],
            ["autoencoder.initial_downsample_factor", "levels here halve"],
        ),
        (
            with("beta_end: 0.0195", "beta_end: 0.0195, clip_sample: true"),
            &[],
            ["diffusion.scheduler.clip_sample", "remove"],
        ),
        (
            with("num_res_blocks: 1\n  scheduler", "num_res_block: 1\n  scheduler"),
            &[],
            ["diffusion.num_res_block", "did you mean `num_res_blocks`?"],
        ),
        (
            with(
                "generate_samples_interval: 10",
                "generate_samples_interval: 10\n    input_noise: {enabled: true, noise_std: 0.03}",
            ),
            &[],
            ["diffusion.training.input_noise.enabled: true", "data.augmentation.noise.probability=1"],
        ),
        (RADAR.replace("loss_norm: \"l2\"", "loss_norm: \"lpips\""), &[], ["diffusion.consistency.loss_norm", "lpips"]),
        (VOLUMES.into(), &["stage=vae"], ["`vae`", "--set stage=diffusion"]),
    ];
    for (text, overrides, parts) in cases {
        let errors = errors(&text, overrides);
        assert_eq!(errors.len(), 1, "{errors:?}");
        parts.iter().for_each(|part| assert!(errors[0].contains(part), "{part} in {}", errors[0]));
    }
    assert!(
        Config::parse(
            "data: {phantom: {count: 2}}\nautoencoder: {num_channels: [32, 64]}",
            "one",
            &["stage=autoencoder".into()]
        )
        .is_err()
    );
}

/// A stage, the section that it becomes, the folder of its run, and what makes it small.
type Stage<'a> = (&'a str, &'a str, &'a str, &'a [&'a str]);

/// The stages of a file, each planned and trained for two steps with what it needs from those before.
fn run_stages(place: &Place, file: &str, stages: &[Stage<'_>], overrides: &[&str]) {
    for (stage, section, run, sizes) in stages {
        let of_stage = [
            format!("stage={stage}"),
            format!("{section}.training.max_steps=2"),
            format!("{section}.training.val_interval=2"),
            format!("{section}.training.visualize_interval=2"),
        ];
        let all = of_stage.iter().map(String::as_str).chain(overrides.iter().chain(*sizes).copied());
        let set: Vec<&str> = all.flat_map(|change| ["--set", change]).collect();
        let plan = place.succeed(&[&["plan", file][..], &set].concat());
        assert!(plan.contains("peak in"), "{plan}");
        let said = place.succeed(&[&["train", file, "--out", run][..], &set].concat());
        assert!(said.contains("2/2") || said.contains("step      2"), "{said}");
        assert!(place.path(run).join("weights.safetensors").is_file(), "{stage}");
    }
}

/// What is set of the data of a file is so for the stages that are trained before the last one.
#[test]
fn data_that_is_set_is_that_of_all_stages_of_a_file() {
    let place = Place::new();
    std::fs::write(place.path("radar.yaml"), RADAR).unwrap();
    let set = ["stage=ldm", "data.paths=[mine]", "data.voxel_size=[8, 16, 16]", "diffusion.training.max_steps=1"];
    let set: Vec<&str> = set.into_iter().flat_map(|set| ["--set", set]).collect();
    let ended = place.run(&[&["train", "radar.yaml", "--with-stages"][..], &set].concat());
    assert!(ended.code == Some(2) && ended.stdout.contains("the first stage, stage 1 of radar.yaml"), "{ended:?}");
    let error = ended.stderr.split("error: ").last().unwrap();
    assert!(error.contains("mine") && !error.contains("Data"), "{error}");
}

/// The guides' files as they are, on small volumes: all stages one after the other.
#[test]
fn every_stage_of_a_file_is_planned_and_trained() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("scans/train")).unwrap();
    for number in 0..3 {
        let volume = leanburn_data::phantom([16, 16, 16], 0.02, number).unwrap();
        volume.write(place.path(&format!("scans/train/{number}.nii.gz"))).unwrap();
    }
    std::fs::write(place.path("volumes.yaml"), VOLUMES).unwrap();
    let autoencoder = ["autoencoder.num_channels=[8, 8, 8]", "autoencoder.training.gradient_accumulation_steps=1"];
    let unet = ["num_channels=[8, 8, 16]", "num_head_channels=8", "training.num_inference_steps=2"];
    let unet = unet.map(|key| format!("diffusion.{key}"));
    let mut unet: Vec<&str> = unet.iter().map(String::as_str).collect();
    let stages: [Stage<'_>; 2] = [
        ("autoencoder", "autoencoder", "outputs/autoencoder", &autoencoder),
        ("diffusion", "diffusion", "outputs/diffusion", &unet),
    ];
    run_stages(&place, "volumes.yaml", &stages, &["data.voxel_size=16"]);
    std::fs::write(place.path("radar.yaml"), RADAR).unwrap();
    unet.push("diffusion.training.gradient_accumulation_steps=1");
    let stages: [Stage<'_>; 3] = [
        ("vae", "vae3d", "results/vae", &["vae3d.training.gradient_accumulation_steps=1"]),
        ("ldm", "diffusion", "results/ldm", &unet),
        ("cd", "diffusion", "results/cd", &unet),
    ];
    let scenes = "data.radar={count: 3, shape: [8, 16, 16], vehicles: 4}";
    run_stages(&place, "radar.yaml", &stages, &["data.paths=[]", scenes, "data.voxel_size=[8, 16, 16]"]);
    let cd = ["results/cd/weights.safetensors", "results/cd/config.yaml"];
    let said = place.succeed(&["sample", cd[0], "--out", "new", "--count", "2", "--compare", cd[1]]);
    let expected = ["sliced Wasserstein distance to real latents", "MS-SSIM of pairs, at 1 scales"];
    expected.iter().for_each(|expected| assert!(said.contains(expected), "{said}"));
}

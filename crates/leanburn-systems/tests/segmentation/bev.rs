//! Maps of the ground: what a configuration may say, that a model learns and goes on where it stopped, and that a plan is what a step holds.

use std::fs;

use leanburn_plan::{FlexMemory, Space};
use leanburn_systems::measure::measure;
use leanburn_systems::metrics::Phase;
use leanburn_systems::planning::ConfigSpace;
use leanburn_systems::{Config, DataSize, DeviceSection, Recompute, Session, SystemSection};
use leanburn_train::Precision;
use leanburn_train::planning::Planner;

use super::diffusion::on_a_new_thread;
use super::{alone, errors, values};

const SMALL: &str = "\
scenes:
  count: 24
  image_size: [32, 48]
  camera_yaws: [-25, 25]
  map: {x: [-12, 12], z: [2, 26], cell: 1}
bev:
  backbone: {embed_dim: 12, depths: [1, 1], num_heads: [2, 4], window_size: 4}
  depth: [2, 26, 3]
  bev_channels: 16
  channels: 16
  layers: [1, 1]
  norm_num_groups: 4
  training: {batch_size: 4, max_steps: 24, learning_rate: 5.0e-3, val_interval: 12, visualize_interval: 24, checkpoint_interval: 12}
device: {name: flex}
";

fn parse(text: &str) -> Config {
    Config::parse(text, "test.yaml", &[]).unwrap()
}

#[test]
fn every_error_has_its_key() {
    parse(SMALL);
    for (text, other, key) in [
        ("count: 24", "count: 24\n  data_root: /data/nuScenes", "scenes.camera_yaws"),
        ("x: [-12, 12]", "x: [-12, 12.5]", "scenes.map.x"),
        ("x: [-12, 12]", "x: [-12, 13]", "scenes.map.x"),
        ("image_size: [32, 48]", "image_size: [4, 48]", "scenes.image_size"),
        ("camera_yaws: [-25, 25]", "camera_yaws: []", "scenes.camera_yaws"),
        ("num_heads: [2, 4]", "num_heads: [5, 4]", "bev.backbone.num_heads"),
        ("depth: [2, 26, 3]", "depth: [0, 26, 3]", "bev.depth"),
        ("depth: [2, 26, 3]", "depth: [2, 26, 3]\n  height: [1, 0, 1]", "bev.height"),
        ("layers: [1, 1]", "layers: [1]", "bev.strides"),
        ("norm_num_groups: 4", "norm_num_groups: 5", "bev.norm_num_groups"),
        ("norm_num_groups: 4", "priors: [0.1]\n  norm_num_groups: 4", "bev.priors"),
        ("batch_size: 4", "uncertainty_weight: -1", "bev.training.uncertainty_weight"),
        ("batch_size: 4", "depth_weight: 1", "bev.training.depth_weight"),
    ] {
        let found = errors(&SMALL.replace(text, other));
        assert!(found.iter().any(|(found, _, _)| found == key), "{key}: {found:?}");
    }
}

#[test]
fn every_key_is_read_and_written_back() {
    let more = "  out_depth: true\n  height: [-2, 2, 2]\n  priors: [0.4, 0.1, 0.1, 0.1, 0.1]\n  training: {class_weights: equal, ";
    let text =
        SMALL.replace("  training: {", more).replace("camera_yaws", "camera_jitter: 0.5\n  noise: 0\n  camera_yaws");
    let config = parse(&text);
    let yaml = config.to_yaml();
    assert_eq!(Config::parse(&yaml, "again.yaml", &[]).unwrap(), config);
    for part in
        ["class_weights: equal", "out_depth: true", "camera_jitter: 0.5", "embed_dim: 12", "uncertainty_weight: 0.001"]
    {
        assert!(yaml.contains(part), "{part} in {yaml}");
    }
    let SystemSection::Bev(section) = &config.system else { panic!("{config:?}") };
    let model = section.model(config.scenes.as_ref().unwrap());
    assert_eq!((model.map_size(), model.lifted_size()), ([24, 24], [4, 6]));
}

/// The guide's configuration, as YAML.
#[test]
fn the_keys_of_the_guide_are_read() {
    let guide = "\
data: {samples_per_gpu: 8, workers_per_gpu: 4}
optimizer: {type: AdamW, lr: 4.0e-4, betas: [0.9, 0.999], weight_decay: 0.01}
optimizer_config: {grad_clip: {max_norm: 35}}
lr_config: {warmup_iters: 1500}
runner: {type: IterBasedRunner, max_iters: 200000, accumulative_counts: 2}
fp16: {loss_scale: 512.0}
";
    let config = parse(guide);
    assert_eq!(config.system_name(), "bev");
    let training = config.training();
    assert_eq!((training.batch_size, training.gradient_accumulation_steps, training.max_steps), (8, 2, 200_000));
    assert_eq!((training.learning_rate, training.weight_decay, training.warmup_steps), (4e-4, 0.01, 1500));
    assert_eq!((training.max_grad_norm, format!("{:?}", training.optimizer)), (Some(35.0), "AdamW".to_string()));
    assert_eq!(config.device.resolved_precision(), Precision::F16);
    assert!(config.to_yaml().contains("loss_scale: 512"), "{}", config.to_yaml());
    assert_eq!(config.scenes.as_ref().unwrap().num_workers, 4);
    // half the batch, and the learning rate with it
    let scaled = parse(
        &(guide.replace("samples_per_gpu: 8", "samples_per_gpu: 4") + "bev: {training: {base_batch_size: 16}}\n"),
    );
    assert_eq!(scaled.training().base_batch_size, Some(16));
    // a key of mmcv that has no counterpart is answered
    let found = errors(&guide.replace("warmup_iters", "warmup_ratio"));
    assert!(found.iter().any(|(key, _, _)| key == "lr_config"), "{found:?}");
}

#[test]
fn a_model_of_maps_learns_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let session = |name: &str| Session::new(parse(SMALL)).unwrap().in_folder(folder.path().join(name));
    let straight = session("straight").run().unwrap();
    let losses = values(&straight.records, Phase::Train, "map");
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[18..]) < 0.8 * mean(&losses[..6]), "{losses:?}");
    for metric in ["miou", "prior_miou", "iou_drivable"] {
        let values = values(&straight.records, Phase::Validation, metric);
        assert!(values.len() == 3 && values.iter().all(|value| (0.0..=1.0).contains(value)), "{metric}: {values:?}");
    }
    assert!(straight.folder.picture(24).is_file());
    session("stopped").stop_after(12).run().unwrap();
    let resumed = session("stopped").resume(true).run().unwrap();
    let weights = |outcome: &leanburn_systems::Outcome| fs::read(outcome.folder.weights()).unwrap();
    assert!(weights(&resumed) == weights(&straight), "weights differ");
    assert_eq!(values(&resumed.records, Phase::Train, "map"), losses);
}

/// Scenes of a folder in the layout of nuScenes: its classes, and the shares that they usually have.
#[test]
fn a_model_of_maps_learns_from_files() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("nuScenes");
    for (part, name) in [("train", "a"), ("train", "b"), ("val", "c")] {
        let place = |kind: &str, end: &str| {
            let place = data.join(kind).join(format!("{part}{end}"));
            fs::create_dir_all(&place).unwrap();
            place.join(format!("{name}.png"))
        };
        image::RgbImage::from_fn(48, 32, |x, y| image::Rgb([(5 * x) as u8, (7 * y) as u8, 90]))
            .save(place("img_dir", ""))
            .unwrap();
        let greys = |of: fn(u32, u32) -> u16| image::ImageBuffer::from_fn(24, 24, |x, y| image::Luma([of(x, y)]));
        greys(|x, y| u16::from(x > 6) | u16::from(y > 20) << 14).save(place("ann_bev_dir", "")).unwrap();
        greys(|_, y| (256 * y) as u16).save(place("ann_bev_dir", "_depth")).unwrap();
    }
    let matrix = "[[40, 0, 24], [0, 40, 16], [0, 0, 1]]";
    let calibration = format!(r#"{{"a": {matrix}, "b": {matrix}, "c": {matrix}, "d": {matrix}}}"#);
    fs::write(data.join("calib.json"), calibration).unwrap();
    let text = SMALL
        .replace("count: 24", &format!("data_root: {}\n  depth: true", data.display()))
        .replace("  camera_yaws: [-25, 25]\n", "")
        .replace("{batch_size: 4, max_steps: 24,", "{batch_size: 2, max_steps: 16, depth_weight: 0.1,");
    let outcome = Session::new(parse(&text)).unwrap().in_folder(folder.path().join("run")).run().unwrap();
    for loss in ["map", "depth"] {
        let losses = values(&outcome.records, Phase::Train, loss);
        assert!(losses[14..].iter().sum::<f64>() < 0.9 * losses[..2].iter().sum::<f64>(), "{loss}: {losses:?}");
    }
    let scores = values(&outcome.records, Phase::Validation, "iou_drivable_area");
    assert!(scores.last().is_some_and(|score| *score > 0.5), "{scores:?}");
    assert!(values(&outcome.records, Phase::Validation, "iou_car").is_empty(), "no scene has one");
    // a scene more changes which one comes when
    for kind in ["img_dir", "ann_bev_dir"] {
        fs::copy(data.join(kind).join("train/a.png"), data.join(kind).join("train/d.png")).unwrap();
    }
    let resumed = Session::new(parse(&text)).unwrap().in_folder(folder.path().join("run")).resume(true).run();
    let message = resumed.unwrap_err().to_string();
    assert!(message.contains("new are") && message.contains("img_dir/train/d.png"), "{message}");
}

/// Recomputed segments, a diffusion head and known depths give the same losses; a static loss scale and bf16 train too.
#[test]
fn every_precision_trains_and_recomputation_changes_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, device: &str, recompute: Recompute| {
        let text = SMALL
            .replace("max_steps: 24, ", "max_steps: 4, diffusion_weight: 1, depth_weight: 0.1, ")
            .replace("{name: flex}", device);
        let text = text.replace("count: 24", "count: 24\n  depth: true");
        let mut config = parse(&text.replace("val_interval: 12", "val_interval: 4"));
        config.training_mut().recompute = recompute;
        let outcome = Session::new(config).unwrap().in_folder(folder.path().join(name)).run().unwrap();
        ["map", "denoising", "depth"].map(|loss| values(&outcome.records, Phase::Train, loss))
    };
    let plain = run("plain", "{name: flex}", Recompute::none());
    assert_eq!(run("recomputed", "{name: flex}", Recompute::all()), plain);
    for (name, device) in
        [("f16", "{name: flex, mixed_precision: true, loss_scale: 512}"), ("bf16", "{name: flex, precision: bf16}")]
    {
        let half = run(name, device, Recompute::none());
        for (half, plain) in half.iter().flatten().zip(plain.iter().flatten()) {
            assert!((half - plain).abs() < 0.1 * plain && half != plain, "{name}: {half} {plain}");
        }
    }
}

#[test]
fn the_planned_peak_of_a_model_of_maps_is_the_measured_one() {
    let _alone = alone();
    for (recompute, precision, diffusion) in [
        (Recompute::none(), Precision::F32, 0),
        (Recompute::all(), Precision::F32, 1),
        (Recompute::none(), Precision::Bf16, 0),
    ] {
        let text = SMALL
            .replace("[32, 48]", "[64, 96]")
            .replace("count: 24", &format!("count: 24\n  depth: {}", diffusion > 0))
            .replace("{batch_size", &format!("{{diffusion_weight: {diffusion}, depth_weight: {diffusion}, batch_size"));
        let mut config = parse(&text.replace("embed_dim: 12", "embed_dim: 24"));
        config.device = DeviceSection::new("flex").with_precision(Some(precision));
        config.training_mut().recompute = recompute;
        let planned_and_measured = || {
            let space = ConfigSpace::new(&config, "test", &Planner::cpu(), || Ok(DataSize::default())).unwrap();
            let planned = space.record(&space.configured()).unwrap().timeline(&FlexMemory).peak().get();
            (planned, measure(&config, "test", [2, 64, 96], 1).unwrap().peak.get())
        };
        on_a_new_thread(planned_and_measured); // what is allocated once for all
        let (planned, measured) = on_a_new_thread(planned_and_measured);
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{precision} {diffusion}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(error.abs() <= 3.0, "{precision} {diffusion}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}

/// The guide's model: 800 x 600 pixels, Swin-T, 14 classes there and five here. The guide's 10.5 GB are those of a batch of four.
#[test]
fn a_batch_of_eight_of_the_guides_model_needs_less_than_the_guides_of_four() {
    let _alone = alone();
    let planned = |precision: Precision, recompute: Recompute| {
        let device = DeviceSection::new("flex").with_precision(Some(precision));
        let mut config = Config::new(leanburn_systems::BevSection::default()).with_device(device);
        (config.training_mut().batch_size, config.training_mut().recompute) = (8, recompute);
        let space = ConfigSpace::new(&config, "test", &Planner::cpu(), || Ok(DataSize::default())).unwrap();
        space.record(&space.configured()).unwrap().timeline(&FlexMemory).peak().get() as f64 / 1e9
    };
    let kept = planned(Precision::F32, Recompute::none());
    let one_layer = planned(Precision::F32, Recompute::segments(["head.layer_1.*".to_string()]));
    let [recomputed, half] = [(Precision::F32, Recompute::all()), (Precision::Bf16, Recompute::none())]
        .map(|(precision, recompute)| planned(precision, recompute));
    println!(
        "GB: {kept:.2} kept, {one_layer:.2} with one layer recomputed, {recomputed:.2} with all, {half:.2} in bf16"
    );
    assert!(kept < 12.0 && one_layer < 10.5 && recomputed < 4.2 && half < 6.5);
}

//! Segmentation: what a configuration may say, that a model learns and goes on where it stopped, and that a plan is what a step
//! holds. And what a codec holds of a volume, diffusion and consistency models on the latents of one, and super-resolution of fields: all
//! measure the heap.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_data::{DataConfig, LabelsConfig, PhantomConfig, Volume};
use leanburn_nn::weights::save_safetensors;
use leanburn_ops::StreamSettings;
use leanburn_plan::{FlexMemory, Space};
use leanburn_systems::measure::measure;
use leanburn_systems::metrics::{Phase, Record};
use leanburn_systems::planning::ConfigSpace;
use leanburn_systems::segmentation::Segmenter;
use leanburn_systems::{
    Codec, CodecTask, Config, DataSize, DeviceSection, DynUnetSection, SegmentationNetwork,
    SegmentationObjectiveSection, SegmentationSection, Session, Streaming, SwinUnetrSection, TrainingSection,
    UnetSection,
};
use leanburn_train::planning::Planner;
use leanburn_train::{CountingAllocator, Precision};

#[path = "segmentation/bev.rs"]
mod bev;
#[path = "segmentation/consistency.rs"]
mod consistency;
#[path = "segmentation/diffusion.rs"]
mod diffusion;
#[path = "segmentation/super_resolution.rs"]
mod super_resolution;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Tests that measure the heap, or would be measured, take turns, with one thread: what others take for a moment is not planned to the
/// byte.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _ = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

const SOUND: &str = "\
data:
  phantom: {count: 2, shape: [16, 16, 16]}
  labels: {}
segmentation:
  num_classes: 3
  channels: [4, 8]
";

/// Key, line and help of every error of a configuration.
fn errors(text: &str) -> Vec<(String, usize, String)> {
    let errors = Config::parse(text, "test.yaml", &[]).expect_err(text);
    let of = |error: &leanburn_systems::yaml::ConfigError| {
        (error.key.clone(), error.position().map_or(0, |(line, _)| line), error.help.clone())
    };
    errors.errors().iter().map(of).collect()
}

/// The only error of the sound configuration with one text in place of another.
#[track_caller]
fn error(text: &str, other: &str) -> (String, usize, String) {
    let found = errors(&SOUND.replace(text, other));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn every_error_has_its_key_and_its_line() {
    Config::parse(SOUND, "test.yaml", &[]).unwrap();
    let at = |(key, line, _): (String, usize, String)| (key, line);
    let (key, line, help) = error("  labels: {}\n", "");
    assert_eq!((key.as_str(), line), ("data.labels", 1));
    assert!(help.contains("class_maps") && help.contains("`labels: {}`"), "{help}");
    let (key, line, help) = error("num_classes: 3", "num_classes: 4");
    assert_eq!((key.as_str(), line), ("segmentation.num_classes", 5));
    assert!(help.contains("write 3"), "{help}");
    assert_eq!(at(error("num_classes: 3", "num_classes: 1")), ("segmentation.num_classes".into(), 5));
    assert_eq!(at(error("  num_classes: 3\n", "")), ("segmentation.num_classes".into(), 4));
    assert_eq!(at(error("[4, 8]", "[4]")), ("segmentation.channels".into(), 6));
    let below = |key: &str, value: &str| at(error("[4, 8]\n", &format!("[4, 8]\n  {key}: {value}\n")));
    for (key, value) in [
        ("strides", "[2, 2]"),
        ("strides", "[0]"),
        ("kernel_size", "2"),
        ("up_kernel_size", "4"),
        ("num_res_units", "99"),
        ("act", "tanh"),
        ("norm", "layer"),
        ("dropout", "1"),
        ("classes", "3"),
    ] {
        assert_eq!(below(key, value), (format!("segmentation.{key}"), 7), "{key}: {value}");
    }
    for (key, value) in [("lambda_dice", "-1"), ("smooth_dr", "0"), ("squared_pred", "2")] {
        let found = below("training", &format!("{{{key}: {value}}}"));
        assert_eq!(found, (format!("segmentation.training.{key}"), 7), "{key}: {value}");
    }
    let found = below("training", "{lambda_ce: 0, lambda_dice: 0}");
    assert_eq!(found, ("segmentation.training.lambda_dice".into(), 7));
}

#[test]
fn every_key_is_read_and_written_back() {
    let keys = "  out_channels: 3\n  strides: [[1, 2, 2]]\n  num_res_units: 2\n  kernel_size: 5\n  up_kernel_size: 1\n  \
        act: leaky_relu\n  norm: batch\n  dropout: 0.1\n  training: {include_background: false, squared_pred: true, \
        lambda_dice: 2, lambda_ce: 0.5, smooth_nr: 0, smooth_dr: 1.0e-3}\n";
    let text = SOUND.replace("  num_classes: 3\n", "") + keys;
    let config = Config::parse(&text, "test.yaml", &[]).unwrap();
    assert_eq!(Config::parse(&config.to_yaml(), "again.yaml", &[]).unwrap(), config);
    let yaml = config.to_yaml();
    for part in ["lambda_dice: 2", "act: leaky_relu", "norm: batch", "kernel_size: 5", "squared_pred: true"] {
        assert!(yaml.contains(part), "{part} in {yaml}");
    }
}

#[test]
fn a_model_has_its_own_keys() {
    let swin = SOUND.replace("  channels: [4, 8]\n", "  model: swin_unetr\n");
    let keys = "  feature_size: 12\n  depths: [1, 2, 1, 1]\n  num_heads: [1, 2, 2, 4]\n  window_size: [4, 3, 5]\n  mlp_ratio: 2\n  \
        norm_name: none\n  normalize: false\n  downsample: mergingv2\n  use_v2: true\n";
    let config = Config::parse(&(swin.clone() + keys), "test.yaml", &[]).unwrap();
    let yaml = config.to_yaml();
    assert_eq!(Config::parse(&yaml, "again.yaml", &[]).unwrap(), config);
    for part in [
        "model: swin_unetr",
        "feature_size: 12",
        "downsample: mergingv2",
        "norm_name: none",
        "use_v2: true",
        "mlp_ratio: 2",
    ] {
        assert!(yaml.contains(part), "{part} in {yaml}");
    }
    assert!(!yaml.contains("kernel_size"), "{yaml}");
    for (key, value) in [
        ("model", "unetr\n  feature_size: 12"),
        ("channels", "[4, 8]"),
        ("feature_size", "14"),
        ("num_heads", "[3, 6, 12]"),
        ("num_heads", "[3, 6, 12, 11]"),
        ("window_size", "0"),
        ("downsample", "pool"),
    ] {
        let text = match key {
            "model" => swin.replace("swin_unetr", value),
            _ => format!("{swin}  {key}: {value}\n"),
        };
        let line = if key == "model" { 6 } else { 7 };
        let found = errors(&text);
        assert!(key != "model" || found.len() == 1, "{found:?}");
        let at = |(key, line, _): &(String, usize, String)| (key.clone(), *line);
        // of a feature size that is no multiple of 12 the default heads are wrong as well
        assert!(
            found.iter().map(at).any(|at| at == (format!("segmentation.{key}"), line)),
            "{key}: {value}: {found:?}"
        );
    }
    assert_eq!(error("[4, 8]\n", "[4, 8]\n  feature_size: 12\n").0, "segmentation.feature_size");
}

#[test]
fn nn_unets_u_net_is_read_from_its_plans() {
    let dyn_unet = SOUND.replace("  channels: [4, 8]\n", "  model: dyn_unet\n");
    let keys = "  features_per_stage: [4, 6, 8]\n  kernel_sizes: [[1, 3, 3], 3, 3]\n  strides: [[1, 1, 1], [1, 2, 2], 2]\n  \
        res_block: true\n  norm_name: batch\n  trans_bias: true\n  training: {deep_supervision: 1}\n";
    let config = Config::parse(&(dyn_unet.clone() + keys), "test.yaml", &[]).unwrap();
    let yaml = config.to_yaml();
    assert_eq!(Config::parse(&yaml, "again.yaml", &[]).unwrap(), config);
    for part in ["model: dyn_unet", "res_block: true", "norm_name: batch", "trans_bias: true"] {
        assert!(yaml.contains(part), "{part} in {yaml}");
    }
    // by nnU-Net's rules where nothing is written
    let sized = dyn_unet.replace("  labels: {}\n", "  labels: {}\n  patch_size: [8, 16, 16]\n  spacing: [3, 1, 1]\n");
    let written = "  filters: [32, 64, 128]\n  strides: [1, [1, 2, 2], 2]\n  kernel_size: [[1, 3, 3], 3, 3]\n";
    let [sized, written] = [sized.clone(), sized + written].map(|text| Config::parse(&text, "test.yaml", &[]).unwrap());
    assert_eq!(sized, written);
    let plain = dyn_unet.clone() + "  filters: [4, 8]\n";
    Config::parse(&plain, "test.yaml", &[]).unwrap();
    for (key, value) in [
        ("kernel_size", "[3]"),
        ("kernel_size", "[3, 2]"),
        ("strides", "[2, 2]"),
        ("strides", "[1, 5]"),
        ("norm_name", "layer"),
        ("channels", "[4, 8]"),
        ("training", "{deep_supervision: 1}"),
    ] {
        let found = errors(&format!("{plain}  {key}: {value}\n"));
        let inner = if key == "training" { ".deep_supervision" } else { "" };
        let (found, line, _) = &found[0];
        assert_eq!((found.as_str(), *line), (format!("segmentation.{key}{inner}").as_str(), 8), "{value}");
    }
    assert_eq!(errors(&dyn_unet)[0].0, "segmentation.filters");
}

#[test]
fn the_decoder_has_as_many_levels_as_have_losses() {
    let text = SOUND.replace("[4, 8]", "[4, 8, 8, 8]") + "  training: {deep_supervision: 2}\n";
    let config = Config::parse(&text, "test.yaml", &[]).unwrap();
    assert_eq!(Config::parse(&config.to_yaml(), "again.yaml", &[]).unwrap(), config);
    assert!(config.to_yaml().contains("deep_supervision: 2"));
    for (channels, levels) in [("[4, 8, 8, 8]", 3), ("[4, 8]", 1)] {
        let text = SOUND.replace("[4, 8]", channels) + &format!("  training: {{deep_supervision: {levels}}}\n");
        let (key, line, message) = errors(&text).remove(0);
        assert_eq!((key.as_str(), line), ("segmentation.training.deep_supervision", 7), "{message}");
    }
}

fn tiny() -> Config {
    let training = TrainingSection::default()
        .with_batch_size(2)
        .with_gradient_accumulation_steps(2)
        .with_max_steps(36)
        .with_learning_rate(1e-2)
        .with_val_interval(8)
        .with_visualize_interval(24)
        .with_checkpoint_interval(12);
    let model = SegmentationSection::new(3, UnetSection::new(vec![4, 8]).with_num_res_units(1)).with_training(training);
    let data = DataConfig {
        phantom: Some(PhantomConfig { count: 4, shape: [16, 16, 16], noise: 0.02 }),
        labels: Some(LabelsConfig::default()),
        patch_size: Some([8; 3]),
        num_workers: 1,
        ..DataConfig::default()
    };
    Config::new(model).with_data(data).with_device(DeviceSection::new("flex"))
}

/// The values of a metric in the records of a phase.
fn values(records: &[Record], phase: Phase, name: &str) -> Vec<f64> {
    records
        .iter()
        .filter(|record| record.phase == phase)
        .filter_map(|record| record.values.get(name).copied())
        .collect()
}

#[test]
fn a_model_learns_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let session = |name: &str| Session::new(tiny()).unwrap().in_folder(folder.path().join(name));
    let straight = session("straight").run().unwrap();
    let losses = values(&straight.records, Phase::Train, "dice_ce");
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[32..]) < 0.8 * mean(&losses[..4]), "{losses:?}");
    let dice = values(&straight.records, Phase::Validation, "dice");
    assert!(dice.last() > dice.first() && *dice.last().unwrap() > 0.3, "{dice:?}");
    for metric in ["dice_class_1", "dice_class_2", "thresholds_dice"] {
        let values = values(&straight.records, Phase::Validation, metric);
        assert!(values.len() == dice.len() && values.iter().all(|dice| (0.0..=1.0).contains(dice)), "{metric}");
    }
    assert!(straight.folder.picture(24).is_file());

    session("stopped").stop_after(12).run().unwrap();
    let resumed = session("stopped").resume(true).run().unwrap();
    let weights = |path: &Path| fs::read(path).unwrap();
    assert!(weights(&resumed.folder.weights()) == weights(&straight.folder.weights()), "weights differ");
    let resumed_dice = values(&resumed.records, Phase::Validation, "dice");
    assert_eq!(resumed_dice.last(), dice.last()); // it was evaluated once more, where it stopped
    assert_eq!(values(&resumed.records, Phase::Train, "dice_ce"), losses);
}

#[test]
fn a_held_out_part_without_any_class_ends_no_run() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let write = |name: &str, value: &dyn Fn(usize) -> usize| {
        // the last quarter along the first axis is held out
        let values = (0..32 * 16 * 16).map(|voxel| value(voxel) as f32).collect();
        let affine = std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
        Volume::new(values, [1, 32, 16, 16], affine).unwrap().write(place(name)).unwrap();
    };
    write("scan.nii", &|voxel| voxel % 5);
    write("labels.nii", &|voxel| if voxel < 16 * 16 * 16 { voxel % 3 } else { 0 });
    let labels = LabelsConfig { label_maps: vec![place("labels.nii")], num_classes: Some(3), ..Default::default() };
    let mut config = tiny();
    config.data = DataConfig { phantom: None, paths: vec![place("scan.nii")], labels: Some(labels), ..config.data };
    let training = config.training_mut();
    (training.val_interval, training.best_metric) = (1, Some("dice_class_2".into()));
    let outcome = Session::new(config).unwrap().in_folder(place("run")).stop_after(2).run().unwrap();
    let validations = outcome.records.iter().filter(|record| record.phase == Phase::Validation);
    let has = |record: &Record, name: &str| record.values.contains_key(name);
    assert_eq!(validations.clone().count(), 3);
    assert!(!validations.clone().any(|record| has(record, "thresholds_dice")), "there is nothing to find");
    assert!(outcome.best.is_none_or(|best| best.value.is_finite()));
}

/// Levels of the U-Net in slabs: the losses of the plain run, the planned peak, and by name what cannot be streamed.
#[test]
fn a_streamed_model_learns_as_the_plain_one() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let stream = || Streaming::segments(["*coder.level_0"], StreamSettings::default().with_slab_planes(2));
    let run = |name: &str, stream: Streaming| {
        let mut config = tiny();
        (config.training_mut().stream, config.training_mut().max_steps) = (stream, 8);
        let outcome = Session::new(config).unwrap().in_folder(folder.path().join(name)).run().unwrap();
        values(&outcome.records, Phase::Train, "dice_ce")
    };
    let (plain, streamed) = (run("plain", Streaming::none()), run("streamed", stream()));
    assert_eq!((plain.len(), streamed.len()), (8, 8));
    for (plain, streamed) in plain.iter().zip(&streamed) {
        assert!((plain - streamed).abs() < 1e-3 * plain, "{plain} and {streamed}");
    }

    let extent = [64, 64, 48];
    let mut config = tiny();
    config.data.patch_size = Some(extent);
    config.training_mut().recompute = leanburn_systems::Recompute::all();
    config.training_mut().stream = stream();
    assert_planned(&[config]);

    let mut refused = on_volumes(SwinUnetrSection::default().with_feature_size(12), [32; 3], Precision::F32, false);
    refused.training_mut().stream = Streaming::segments(["decoder*"], StreamSettings::default());
    let error = Session::new(refused).unwrap().in_folder(folder.path().join("refused")).run().unwrap_err();
    assert!(format!("{error:?}").contains("segmentation.training.stream"), "{error:?}");
}

/// A model on volumes of this extent.
fn on_volumes(
    network: impl Into<SegmentationNetwork>,
    extent: [usize; 3],
    precision: Precision,
    is_recomputed: bool,
) -> Config {
    let training = TrainingSection::default().with_max_steps(4).with_checkpoint_interval(2);
    let training = training.with_val_interval(4).with_visualize_interval(0);
    let mut config = tiny().with_device(DeviceSection::new("flex").with_precision(Some(precision)));
    config = Config::new(SegmentationSection::new(3, network).with_training(training))
        .with_data(DataConfig { patch_size: Some(extent), ..config.data.clone() })
        .with_device(config.device.clone());
    if is_recomputed {
        config.training_mut().recompute = leanburn_systems::Recompute::all();
    }
    config
}

/// Holds the planned peak of steps against the measured one.
fn assert_planned(cases: &[Config]) {
    for (index, config) in cases.iter().enumerate() {
        let extent = config.data.patch_size.unwrap();
        let space = ConfigSpace::new(config, "test", &Planner::cpu(), || Ok(DataSize::of_extent(extent))).unwrap();
        let planned = space.record(&space.configured()).unwrap().timeline(&FlexMemory).peak().get();
        measure(config, "test", extent, 1).unwrap(); // what is allocated once for all
        let measured = measure(config, "test", extent, 1).unwrap().peak.get();
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("case {index}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(error.abs() <= 3.0, "case {index}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}

/// Windows that are shifted, padded and shrunken; both versions; kept, recomputed and in half precision.
#[test]
fn the_planned_peak_of_a_swin_unetr_is_the_measured_one() {
    let _alone = alone();
    let small = || SwinUnetrSection::default().with_feature_size(12).with_depths([2, 1, 1, 1]);
    let other = || small().with_num_heads([1, 2, 2, 4]).with_window_size([4, 5, 3]).with_use_v2(true);
    assert_planned(&[
        on_volumes(small(), [32, 32, 64], Precision::F32, false),
        on_volumes(other(), [64, 32, 32], Precision::F32, false),
        on_volumes(other().with_normalize(false), [32, 64, 32], Precision::Bf16, true),
    ]);
}

/// Thick slices and cubes; kept, recomputed and in half precision, with losses at several levels.
#[test]
fn the_planned_peak_of_nn_unets_u_net_is_the_measured_one() {
    let _alone = alone();
    let cubes = || DynUnetSection::new(vec![8, 16, 24]);
    let (kernels, strides) = (vec![[1, 3, 3], [3; 3], [3; 3]], vec![[1; 3], [1, 2, 2], [2; 3]]);
    let thick = || cubes().with_kernel_size(kernels.clone()).with_strides(strides.clone()).with_res_block(true);
    assert_planned(&[
        on_volumes(cubes(), [48, 48, 64], Precision::F32, false),
        on_volumes(thick(), [16, 64, 96], Precision::F32, true),
        on_volumes(thick(), [16, 64, 96], Precision::Bf16, false),
    ]);
}

#[test]
fn a_swin_unetr_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let network = SwinUnetrSection::default().with_feature_size(12).with_depths([1; 4]).with_window_size([4; 3]);
    let session = |name: &str| {
        let mut config = on_volumes(network.clone(), [32; 3], Precision::F32, false);
        config.data.phantom = Some(PhantomConfig { count: 2, shape: [32, 32, 64], noise: 0.02 });
        config.data.patch_size = Some([32, 32, 64]);
        Session::new(config).unwrap().in_folder(folder.path().join(name))
    };
    let straight = session("straight").run().unwrap();
    session("stopped").stop_after(2).run().unwrap();
    let resumed = session("stopped").resume(true).run().unwrap();
    let weights = |path: &Path| fs::read(path).unwrap();
    assert!(weights(&resumed.folder.weights()) == weights(&straight.folder.weights()), "weights differ");
    assert!(values(&straight.records, Phase::Validation, "dice").iter().all(|dice| (0.0..=1.0).contains(dice)));
}

/// The small U-Net with three levels, two of which have losses.
fn supervised() -> Config {
    let objective = SegmentationObjectiveSection::default().with_deep_supervision(1);
    let network = UnetSection::new(vec![4, 8, 8]).with_num_res_units(1);
    let model = SegmentationSection::new(3, network).with_training(tiny().training().clone()).with_objective(objective);
    Config::new(model).with_data(tiny().data).with_device(DeviceSection::new("flex"))
}

/// Heads are trained, saved in checkpoints, and no part of the weights, which are the model's alone.
#[test]
fn a_supervised_model_learns_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let session = |name: &str| Session::new(supervised()).unwrap().in_folder(folder.path().join(name));
    let straight = session("straight").run().unwrap();
    let [finest, all] = ["dice_ce", "deep_supervision"].map(|name| values(&straight.records, Phase::Train, name));
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&all[32..]) < 0.9 * mean(&all[..4]), "{all:?}");
    assert!(finest.len() == all.len() && finest[0] != all[0], "{finest:?} {all:?}");
    session("stopped").stop_after(12).run().unwrap();
    let resumed = session("stopped").resume(true).run().unwrap();
    let weights = |path: &Path| fs::read(path).unwrap();
    assert!(weights(&resumed.folder.weights()) == weights(&straight.folder.weights()), "weights differ");
    assert_eq!(values(&resumed.records, Phase::Train, "deep_supervision"), all);

    let leanburn_systems::SystemSection::Segmentation(section) = &supervised().system else { unreachable!() };
    let device = Device::flex();
    let loaded = Segmenter::load(section, &supervised().context("test"), &straight.folder.weights(), &device);
    assert!(loaded.is_ok(), "{loaded:?}");
    let text = weights(&straight.folder.weights());
    assert!(!text.windows(5).any(|bytes| bytes == b"heads"), "heads are no part of the weights");
}

#[test]
fn the_planned_peak_is_the_measured_one() {
    let _alone = alone();
    let extent = [32, 32, 48];
    for (base, recompute, precision) in [
        (tiny(), false, Precision::F32),
        (tiny(), true, Precision::F32),
        (tiny(), false, Precision::Bf16),
        (supervised(), false, Precision::F32),
        (supervised(), true, Precision::Bf16),
    ] {
        let mut config = base.with_device(DeviceSection::new("flex").with_precision(Some(precision)));
        config.data.patch_size = Some(extent);
        if recompute {
            config.training_mut().recompute = leanburn_systems::Recompute::all();
        }
        let space = ConfigSpace::new(&config, "test", &Planner::cpu(), || Ok(DataSize::of_extent(extent))).unwrap();
        let planned = space.record(&space.configured()).unwrap().timeline(&FlexMemory).peak().get();
        measure(&config, "test", extent, 1).unwrap(); // what is allocated once for all
        let measured = measure(&config, "test", extent, 1).unwrap().peak.get();
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{recompute} {precision}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(error.abs() <= 3.0, "{recompute} {precision}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}

/// An autoencoder without training.
fn codec() -> Codec {
    let text = "data: {phantom: {count: 2, shape: [16, 16, 16]}}\nautoencoder: {num_channels: [16, 16], norm_num_groups: 4, \
                attention_levels: [false, false], num_res_blocks: 1}\ndevice: {name: flex}\n";
    let config = Config::parse(text, "test", &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("weights.safetensors");
    let device = Device::flex();
    leanburn_ops::random::seed(&device, 1);
    let model = leanburn_nn::models::AutoencoderKlConfig::new(vec![16; 2], vec![1; 2], vec![false; 2]);
    let model = model.with_norm_num_groups(4).with_encoder_nonlocal_attn(false).with_decoder_nonlocal_attn(false);
    save_safetensors(&model.init(&device), &weights).unwrap();
    config.codec("test", &weights, &device).unwrap().expect("an autoencoder is one")
}

#[test]
fn a_volume_is_reconstructed_in_slabs_within_a_budget() {
    let _alone = alone();
    let (codec, extent) = (codec(), [143, 32, 32]);
    let values = (0..extent.iter().product::<usize>()).map(|index| (index * 37 % 101) as f32 / 101.0).collect();
    let affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    let volume = Volume::new(values, [1, extent[0], extent[1], extent[2]], affine).unwrap();
    let run = |codec: &Codec| {
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let reconstruction = codec.reconstruct(&volume, None, |_| {}).unwrap();
        let peak = HEAP.peak_usage() - before + 4 * volume.data().len();
        (reconstruction.data().to_vec(), Bytes(peak as u64))
    };
    run(&codec); // what is allocated once for all
    let (whole, peak) = run(&codec);
    let needed = codec.needed(CodecTask::Reconstruct, extent).unwrap();
    assert!(peak <= needed && peak.as_mib() > 0.85 * needed.as_mib(), "{peak} measured, {needed} planned");
    let error = codec.within(Bytes::mib(1), CodecTask::Reconstruct, extent).unwrap_err();
    assert!(error.help().unwrap().contains("--patch"), "{error}");
    let error = error.to_string();
    let smallest = error.strip_prefix("budget: expected at least ").and_then(|rest| rest.split_once(" for "));
    let smallest: Bytes = smallest.unwrap_or_else(|| panic!("{error}")).0.parse().unwrap();
    assert!(smallest < needed.share(0.45), "{smallest} of {needed}");
    for budget in [needed.share(0.5), smallest] {
        let streamed = codec.within(budget, CodecTask::Reconstruct, extent).unwrap();
        let (slabs, small) = run(&streamed);
        println!("{peak} whole ({needed} planned), {small} in slabs (budget {budget})");
        assert!(small <= budget, "{small} of {budget}");
        let most = whole.iter().zip(&slabs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let size = whole.iter().fold(0.0f32, |size, value| size.max(value.abs()));
        assert!(most <= 3e-5 * size && most < 1e-4, "{most} of {size}");
    }
}

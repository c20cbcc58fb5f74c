//! The perceptual loss of slices: weights from a file that the user names, or a word on where to get it.

use std::fs;

use burn::tensor::Device;
use leanburn_nn::losses::{LpipsConfig, LpipsNetwork};
use leanburn_nn::weights::save_safetensors;
use serde_json::Value;

use crate::common::Place;

/// A small autoencoder of volumes whose slices across the depth are large enough for squeeze.
const CONFIG: &str = "\
data: {phantom: {count: 3, shape: [8, 28, 28]}, voxel_size: [8, 28, 28], num_workers: 1}
autoencoder:
  num_channels: [4, 4]
  norm_num_groups: 2
  num_res_blocks: 1
  training:
    max_steps: 2
    use_perceptual_loss: true
    lpips: {weights: lpips.safetensors, planes: [depth]}
";

/// The configuration, and in its folder a file of random weights of a network.
fn place(config: &str, network: LpipsNetwork) -> Place {
    let place = Place::new();
    fs::write(place.path("slices.yaml"), config).unwrap();
    let loss = LpipsConfig::new().with_network(network).init(&Device::flex());
    save_safetensors(loss.features(), &place.path("lpips.safetensors")).unwrap();
    place
}

fn peak(place: &Place, more: &[&str]) -> u64 {
    let arguments = [&["plan", "slices.yaml", "--json"], more].concat();
    let plan: Value = serde_json::from_str(&place.succeed(&arguments)).unwrap();
    plan["step_peak_bytes"].as_u64().unwrap()
}

#[track_caller]
fn is_rejected(place: &Place, parts: &[&str]) {
    let ended = place.run(&["train", "slices.yaml", "--out", "run"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    parts.iter().for_each(|part| assert!(text.contains(part), "{part} in {text}"));
    assert!(!place.path("run").exists(), "rejected before there is a run");
}

#[test]
fn slices_are_compared_in_training_and_the_weights_of_the_file_count() {
    let perceptual = |place: &Place| {
        place.succeed(&["train", "slices.yaml", "--out", "run"]);
        let records = place.metrics("run");
        let first = records.iter().find(|record| record["phase"] == "train").unwrap();
        first["values"]["perceptual"].as_f64().unwrap_or_else(|| panic!("no perceptual loss in {first}"))
    };
    let [one, other] = [(); 2].map(|()| perceptual(&place(CONFIG, LpipsNetwork::Squeeze)));
    assert_ne!(one, other, "random weights of two files");
}

#[test]
fn a_file_that_is_missing_or_of_another_network_is_rejected_with_the_remedy() {
    let missing = place(CONFIG, LpipsNetwork::Squeeze);
    fs::remove_file(missing.path("lpips.safetensors")).unwrap();
    is_rejected(&missing, &["lpips.safetensors: no such file", "pip install lpips", "lpips.LPIPS(net='squeeze')"]);
    is_rejected(&place(CONFIG, LpipsNetwork::Alex), &["not those of this model", "lpips.LPIPS(net='squeeze')"]);
    let damaged = place(CONFIG, LpipsNetwork::Squeeze);
    fs::write(damaged.path("lpips.safetensors"), "no weights").unwrap();
    is_rejected(&damaged, &["expected a state dict", "pip install lpips"]);
}

#[test]
fn its_cost_is_planned_without_the_file() {
    let place = place(CONFIG, LpipsNetwork::Squeeze);
    fs::remove_file(place.path("lpips.safetensors")).unwrap();
    let off = peak(&place, &["--set", "autoencoder.training.use_perceptual_loss=false"]);
    let squeeze = peak(&place, &[]);
    assert!(squeeze > off + (2 << 20), "{squeeze} {off}: squeeze alone is 2.8 MiB");
    let vgg = peak(&place, &["--set", "autoencoder.training.lpips.network=vgg"]);
    assert!(vgg > squeeze + (50 << 20), "{vgg} {squeeze}: vgg is 56 MiB");
}

#[test]
fn the_plan_of_slices_is_what_is_measured() {
    // In smaller volumes other bytes outweigh tensors.
    let place = place(&CONFIG.replace("8, 28, 28", "32, 64, 64"), LpipsNetwork::Squeeze);
    let measured: Value =
        serde_json::from_str(&place.succeed(&["measure", "slices.yaml", "--steps", "1", "--json"])).unwrap();
    let step = measured["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "step").unwrap();
    let [predicted, measured] = ["predicted_bytes", "measured_bytes"].map(|key| step[key].as_f64().unwrap());
    assert!((predicted / measured - 1.0).abs() < 0.03, "{predicted} {measured}");
}

#[test]
fn slices_that_are_too_small_are_rejected_and_no_such_plan_is_proposed() {
    let small = CONFIG.replace("[depth]", "[depth, width]");
    is_rejected(&place(&small, LpipsNetwork::Squeeze), &["slices of at least 25 x 25", "set `planes` to [depth]"]);
    let smaller = small.replace("28", "16");
    is_rejected(&place(&smaller, LpipsNetwork::Squeeze), &["vgg is content with 16"]);
    // Halving the volume would leave no slices; fit must not stumble over it.
    let place = place(CONFIG, LpipsNetwork::Squeeze);
    place.succeed(&["fit", "slices.yaml", "--budget", "1GiB", "--out", "fitted.yaml"]);
    assert!(place.text("fitted.yaml").contains("slice_share"));
    let tight = place.run(&["fit", "slices.yaml", "--budget", "3MiB"]);
    assert_eq!(tight.code, Some(1), "{tight:?}");
    assert!(tight.stdout.contains("without the perceptual loss"), "{}", tight.stdout);
    is_invalid(&place, "autoencoder.training.lpips.slice_share=0", "above 0");
    is_invalid(&place, "autoencoder.training.lpips.planes=[]", "planes");
}

#[track_caller]
fn is_invalid(place: &Place, setting: &str, part: &str) {
    let ended = place.run(&["plan", "slices.yaml", "--set", setting]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
}

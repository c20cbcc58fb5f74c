//! The command on the GPUs of this build.

use std::path::Path;

use crate::common::Place;
use crate::device::{gpu, gpu_name};
use leanburn_common::Bytes;
use leanburn_ops::Gpu;
use leanburn_plan::catalogue;
use serde_json::Value;

const STEPS: usize = 10;

/// The reconstruction losses of the first steps of the recipe for the MNI152 scan, with one level less and on smaller cubes: a stand-in for
/// a card compiles every kernel for minutes.
fn losses(place: &Place, device: &str) -> Vec<f64> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let recipe = repository.join("configs/mni152-autoencoder.yaml");
    let data = format!("data.paths=[{}]", repository.join("data/mni152_2009a_t1_1mm.nii.gz").display());
    let steps = STEPS.to_string();
    // Evaluating the whole head takes longer than the steps; it is left out.
    let sets = [
        "data.val_patches=1",
        "data.patch_size=16",
        "autoencoder.num_channels=[8, 16]",
        "autoencoder.attention_levels=[false, false]",
        "autoencoder.training.visualize_interval=0",
        data.as_str(),
    ];
    let mut arguments =
        vec!["train", recipe.to_str().unwrap(), "--device", device, "--out", device, "--max-steps", &steps];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let ended = place.run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let records = place.metrics(device);
    let steps = records.iter().filter(|record| record["phase"] == "train");
    steps.map(|record| record["values"]["reconstruction"].as_f64().unwrap()).collect()
}

#[test]
fn a_recipe_learns_as_on_the_cpu() {
    let place = Place::new();
    let (cpu, gpu) = (losses(&place, "flex"), losses(&place, gpu_name()));
    assert_eq!((cpu.len(), gpu.len()), (STEPS, STEPS));
    for (step, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
        assert!((cpu - gpu).abs() <= 1e-3 * cpu.abs(), "step {step}: {cpu} on the CPU, {gpu} on {}", gpu_name());
    }
    assert!(gpu[STEPS - 1] < gpu[0]);
    let records = place.metrics(gpu_name());
    let reserved = records[2]["values"]["memory.reserved_bytes"].as_f64().unwrap();
    assert!(reserved >= records[2]["values"]["memory.live_bytes"].as_f64().unwrap());
}

#[test]
fn a_device_is_checked_and_listed() {
    let place = Place::new();
    let checked = place.run(&["devices", "--check", gpu_name()]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.contains("f32"), "{checked:?}");
    let listed = place.run(&["devices"]);
    assert!(listed.stdout.contains(gpu_name()) && listed.stdout.contains("not in this build"), "{listed:?}");
}

#[test]
fn a_plan_is_what_the_pool_holds() {
    let place = Place::new();
    let size = ["--set", "data.phantom.shape=[32, 32, 32]", "--set", "data.patch_size=32"];
    let device = format!("device.name={}", gpu_name());
    let common = [&["measure", "tiny.yaml", "--json", "--steps", "1", "--set", device.as_str()][..], &size].concat();
    let streamed = ["stream=['*coder.level_0']", "slab_planes=4", "discriminator=null"]
        .map(|key| format!("autoencoder.training.{key}"));
    let streamed: Vec<&str> = streamed.iter().flat_map(|set| ["--set", set]).collect();
    // A stream launches many kernels on little: what launches hold themselves is not planned.
    let peaks = [(&[][..], 0.03), (&streamed, 0.07)].map(|(more, most)| {
        let measured: Value = serde_json::from_str(&place.succeed(&[&common[..], more].concat())).unwrap();
        println!("{measured:#}");
        let rows = measured["phases"].as_array().unwrap();
        let step = rows.iter().find(|row| row["phase"] == "step").unwrap();
        let (planned, found) = (step["predicted_bytes"].as_f64().unwrap(), step["measured_bytes"].as_f64().unwrap());
        assert!((planned - found).abs() <= most * found, "planned {planned}, held {found}, with {more:?}");
        found
    });
    assert!(peaks[1] < 0.8 * peaks[0], "{peaks:?}");
}

/// A limit below what a step holds on the device: some segments are recomputed or streamed, and the step is the same.
#[test]
fn a_run_that_does_not_fit_steps_down() {
    let place = Place::new();
    let device = format!("device.name={}", gpu_name());
    let common = [
        device.as_str(),
        "device.allocator=exclusive_pages",
        "data.phantom.shape=[32, 32, 32]",
        "data.patch_size=32",
        "data.val_fraction=0",
        "autoencoder.training.max_steps=1",
        "autoencoder.training.visualize_interval=0",
        "autoencoder.training.discriminator=null",
    ];
    let sets = |more: &[&'static str]| -> Vec<&str> {
        common.iter().copied().chain(more.iter().copied()).flat_map(|set| ["--set", set]).collect()
    };
    let value = |run: &str, name: &str| {
        let records = place.metrics(run);
        let steps: Vec<_> = records.iter().filter(|record| record["phase"] == "train").collect();
        assert_eq!(steps.len(), 1, "{run}: the step is lost");
        steps[0]["values"][name].as_f64().unwrap()
    };
    place.train("plain", &sets(&[]));

    // What the pool holds between forward and backward, its own memory included: it says so itself.
    let rejected = place.run(
        &[&["train", "tiny.yaml", "--out", "rejected", "--on-oom", "fail"], &sets(&["device.memory_limit=9 MiB"])[..]]
            .concat(),
    );
    assert_eq!(rejected.code, Some(1), "{rejected:?}");
    assert!(rejected.stderr.contains("in the forward pass of step 0"), "{rejected:?}");
    let held = rejected.stderr.split("it held ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let mebibytes = held.parse::<f64>().unwrap();

    let limit = format!("device.memory_limit={} MiB", mebibytes - 1.0);
    let arguments = [&sets(&[])[..], &["--set", &limit]].concat();
    let printed = place.train("limited", &arguments);
    for words in ["out of memory in the forward pass", "stepping down: recompute", "going on from step 0"] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    // The most that was held between forward and backward.
    assert!(value("limited", "memory.peak_bytes") < value("plain", "memory.peak_bytes"));
    // A stream sums in another order.
    for name in ["reconstruction", "kl", "autoencoder.gradient_norm"] {
        let [limited, plain] = ["limited", "plain"].map(|run| value(run, name));
        assert!((limited - plain).abs() <= 1e-5 * plain.abs(), "{name}: {limited}, {plain} without a limit: {printed}");
    }
}

/// Half precision is a level of the ladder where the device computes in it.
#[test]
fn the_ladder_has_the_levels_that_the_device_has() {
    let place = Place::new();
    let sets = [format!("device.name={}", gpu_name()), "autoencoder.training.discriminator=null".into()];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let measured =
        place.succeed(&[&["measure", "tiny.yaml", "--ladder", "--steps", "1", "--json"][..], &sets].concat());
    let measured: Value = serde_json::from_str(&measured).unwrap();
    let savers: Vec<&str> =
        measured["ladder"].as_array().unwrap().iter().map(|row| row["saver"].as_str().unwrap()).collect();
    let listed = place.succeed(&["devices"]);
    let computes = listed.lines().find(|line| line.starts_with(&format!("│ {} ", gpu_name()))).unwrap();
    let half = ["bf16", "f16"].into_iter().find(|half| computes.contains(half));
    assert!(savers.contains(&"recomputation"), "{savers:?}");
    assert_eq!(savers.into_iter().find(|saver| saver.ends_with("f16")), half, "{computes}");
}

/// What the device says of itself: its name, its memory and its largest allocation.
fn here() -> (String, Bytes, Bytes) {
    let gpu = Gpu::of(&gpu()).expect("it is a GPU");
    (gpu.name, Bytes(gpu.memory.expect("the driver says it")), Bytes(gpu.largest_allocation))
}

/// A plan is checked against the memory of the device that is here, without being told its memory: that of the catalogue for a card that is
/// in it, and what the driver says of any other.
#[test]
fn a_plan_is_for_the_device_that_is_here() {
    let place = Place::new();
    let (name, memory, _) = here();
    assert_eq!(place.succeed(&["devices", "--name", gpu_name()]).trim(), name);
    let device = format!("device.name={}", gpu_name());
    let planned = place.succeed(&["plan", "tiny.yaml", "--set", &device]);
    let unlisted = format!("device.name is {}, {name}, which the catalogue does not have", gpu_name());
    let card = catalogue::Device::of_driver(&name, memory);
    assert_eq!(planned.contains(&unlisted), card.is_none(), "{planned}");
    let (called, budget) = card.map_or((name.as_str(), memory), |card| (card.full_name, card.memory_bytes));
    assert!(planned.contains(called) && planned.contains(&budget.to_string()), "{called}, {budget}: {planned}");
    let fitted: Value =
        serde_json::from_str(&place.succeed(&["fit", "tiny.yaml", "--set", &device, "--json"])).unwrap();
    assert_eq!(fitted["budget_bytes"].as_u64(), Some(budget.get()), "{fitted:#}");
    // A volume whose first activation alone, of four channels, is more than all the memory.
    let side = (budget.get() as f64 / 16.0).cbrt() as u64 / 8 * 8 + 8;
    let [shape, patch] = [format!("data.phantom.shape=[{side}, {side}, {side}]"), format!("data.patch_size={side}")];
    let rejected = place.run(&["plan", "tiny.yaml", "--set", &device, "--set", &shape, "--set", &patch]);
    assert_eq!(rejected.code, Some(1), "{rejected:?}");
}

/// The device says so itself, at once: nothing that needs the tensor is run.
#[test]
fn a_tensor_that_the_device_cannot_make_is_foreseen_and_named() {
    const VOXELS: u64 = 160 * 160 * 160;
    let place = Place::new();
    let (name, memory, largest) = here();
    // So many channels that one activation is nearly twice the largest allocation, and a step more than the memory.
    let channels = (1.7 * largest.get() as f64 / (4 * VOXELS) as f64) as u64 / 2 * 2;
    let tensor = Bytes(4 * VOXELS * channels);
    let device = format!("device.name={}", gpu_name());
    let channels = format!("autoencoder.num_channels=[{channels}]"); // one level, as the error comes with a search for what fits
    let sets = [
        device.as_str(),
        channels.as_str(),
        "data.phantom.shape=[160, 160, 160]",
        "data.patch_size=160",
        "autoencoder.training.batch_size=1",
        "autoencoder.training.visualize_interval=0",
        "autoencoder.training.discriminator=null",
        "data.val_fraction=0",
    ];
    let arguments: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let ended = place.run(&[&["train", "tiny.yaml", "--out", "large", "--on-oom", "fail"][..], &arguments].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in [
        format!("that is more than the {memory} that {name} has"),
        format!("the largest tensor has {tensor}, more than the {largest} that {name} gives at once"),
    ] {
        assert!(ended.stdout.contains(&words), "{words} in {ended:?}");
    }
    // Where it runs late, what forward had no memory for shows when the gradients' norm is read, before an update.
    for words in ["out of memory in the forward", "pass of step 0: ", "the weights are those before it"] {
        assert!(ended.stderr.contains(words), "{words} in {ended:?}");
    }
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

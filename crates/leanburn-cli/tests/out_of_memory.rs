//! A step that does not fit: stepping down, and going on.

mod common;

use common::Place;

/// A volume large enough that the saved activations are most of the memory.
const LARGE: [&str; 8] = [
    "--set",
    "data.phantom.shape=[32, 32, 32]",
    "--set",
    "data.patch_size=32",
    "--set",
    "autoencoder.training.val_interval=100",
    "--set",
    "autoencoder.training.visualize_interval=100",
];

/// The most that a step held.
fn peak(place: &Place, run: &str) -> f64 {
    let records = place.metrics(run);
    let steps = records.iter().filter(|record| record["phase"] == "train");
    steps.filter_map(|record| record["values"]["memory.peak_bytes"].as_f64()).fold(0.0, f64::max)
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    LARGE.iter().copied().chain(more.iter().copied()).collect()
}

/// Twice of what there is: nothing is begun that would be killed.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_the_machine_cannot_hold_is_rejected_before_it_begins() {
    let place = Place::new();
    let arguments = ["train", "tiny.yaml", "--out", "run", "--set", "autoencoder.training.batch_size=512"];
    let ended = place.run_within(2 << 20, &[&arguments[..], &LARGE].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in [
        "is planned to need",
        "this machine has 2.0 GiB",
        "of which the heap may take ",
        "leanburn fit CONFIG --budget ",
    ] {
        assert!(ended.stderr.contains(words), "{words} in {ended:?}");
    }
    assert!(!place.path("run").exists() && !ended.stderr.contains("panicked"), "{ended:?}");
}

/// The MNI152 scan, and volumes and fields that are made, each in batches that take hundreds of MiB.
#[cfg(target_os = "linux")]
#[test]
fn half_of_what_is_planned_is_refused_before_the_data_is_read() {
    let systems = [
        ("mni152-autoencoder", "autoencoder.training.batch_size=192", "data.cache_rate=1"),
        ("vqvae", "vqvae.training.batch_size=384", "data.patch_size=32"),
        ("convlstm-advection", "forecaster.training.batch_size=512", "sequence.prefetch=1"),
    ];
    let place = Place::new();
    for (recipe, batch, key) in systems {
        place.succeed(&["init", recipe]);
        let file = format!("{recipe}.yaml");
        let set = ["--set", batch, "--set", key];
        let plan = place.succeed(&[&["plan", &file, "--json"][..], &set].concat());
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let planned = plan["needed_bytes"].as_u64().unwrap();
        assert!(planned > 1 << 30, "{planned}: half of it is more than the program itself maps");
        let train = [&["train", &file, "--out", recipe, "--max-steps", "1"][..], &set].concat();
        let refused = [Some(place.run_within(planned / 2 / 1024, &train)), place.run_in_group(planned / 2, &train)];
        for ended in refused.into_iter().flatten() {
            assert_eq!(ended.code, Some(1), "{recipe}, planned {planned}: {ended:?}");
            let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("this machine has ") && !text.contains(" 0B"), "{recipe}: {text}");
            assert!(text.contains("leanburn fit CONFIG --budget ") || text.contains("no configuration fits"), "{text}");
            assert!(!place.path(recipe).exists(), "{recipe}: nothing was begun");
        }
    }
}

/// What exceeds a control group is killed: a run in one is refused, or ends well. The groups grow from half of the plan.
#[cfg(target_os = "linux")]
#[test]
fn no_run_in_a_control_group_is_killed() {
    let place = Place::new();
    let train = with(&["--set", "autoencoder.training.batch_size=24", "--set", "autoencoder.training.max_steps=1"]);
    let plan = place.succeed(&[&["plan", "tiny.yaml", "--json"], &train[..]].concat());
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let planned = plan["needed_bytes"].as_u64().unwrap();
    let mut ends = Vec::new();
    for (index, spare) in [0, 16, 32, 64, 96].into_iter().enumerate() {
        let bytes = if index == 0 { planned / 2 } else { planned * 10 / 9 + (spare << 20) };
        let run = format!("run-{index}");
        let Some(ended) = place.run_in_group(bytes, &[&["train", "tiny.yaml", "--out", &run], &train[..]].concat())
        else {
            eprintln!("left out: no control group can be made here");
            return;
        };
        let refused = ended.code == Some(1) && ended.stderr.contains("this machine has ");
        assert!(refused || ended.code == Some(0), "planned {planned}, in {bytes} bytes: {ended:?}");
        assert_eq!(place.path(&run).exists(), !refused, "what is refused is not begun");
        ends.push(refused);
    }
    assert!(ends[0] && !ends[4], "half of the plan is too little, all of it and the program enough: {ends:?}");
}

#[test]
fn a_run_that_does_not_fit_steps_down_and_computes_the_same() {
    let place = Place::new();
    place.train("plain", &LARGE);
    place.train("lean", &with(&["--set", "autoencoder.training.use_gradient_checkpointing=true"]));
    let (plain, lean) = (peak(&place, "plain"), peak(&place, "lean"));
    assert!(lean < 0.9 * plain, "{lean} {plain}");

    let limit = format!("device.memory_limit={} B", ((plain + lean) / 2.0) as u64);
    let printed = place.train("limited", &with(&["--set", &limit]));
    for words in
        ["out of memory", "stepping down: recompute", "by the plan a step holds most at", "going on from step 0"]
    {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    for file in ["weights.safetensors", "discriminator.safetensors"] {
        assert!(place.bytes(&format!("limited/{file}")) == place.bytes(&format!("plain/{file}")), "{file} differs");
    }
    assert!(peak(&place, "limited") < plain);
    let steps = place.metrics("limited").iter().filter(|record| record["phase"] == "train").count();
    assert_eq!(steps, 4, "no step is lost");
    assert!(place.text("limited/config.yaml").contains("recompute"));
}

/// Recomputation alone would not do, and `fit` splits the batch.
#[test]
fn a_run_goes_on_with_the_fastest_plan_that_fits_its_batch_split_where_that_is_it() {
    let place = Place::new();
    let batch = with(&["--set", "autoencoder.training.batch_size=4", "--set", "autoencoder.training.max_steps=3"]);
    let fit = place.succeed(&[&["fit", "tiny.yaml", "--budget", "1GiB", "--json", "--frontier"], &batch[..]].concat());
    let fit: serde_json::Value = serde_json::from_str(&fit).unwrap();
    let plans = fit["frontier"].as_array().unwrap();
    let expected = plans.iter().rev().find(|plan| plan["candidate"]["micro_batch"].as_u64() < Some(4)).unwrap();
    let (limit, items) = (expected["peak"].as_f64().unwrap(), &expected["candidate"]["micro_batch"]);

    let set = format!("device.memory_limit={limit} B");
    let printed = place.train("limited", &[&batch[..], &["--set", &set]].concat());
    let change = format!("stepping down: batch 4 x 1 -> {items} x ");
    assert!(printed.contains(&change) && printed.matches("stepping down: ").count() == 1, "{change} in {printed}");
    assert!(printed.contains("changed: autoencoder.training.batch_size: 4 -> "), "{printed}");
    assert!(peak(&place, "limited") <= limit, "{} of {limit}", peak(&place, "limited"));
    let steps = place.metrics("limited").iter().filter(|record| record["phase"] == "train").count();
    assert_eq!(steps, 3, "no step is lost");
    // the same volumes make a step, split or not
    place.train("whole", &batch);
    let loss = |run: &str| {
        place.metrics(run).into_iter().find(|record| record["phase"] == "train").unwrap()["values"]["reconstruction"]
            .as_f64()
    };
    let [split, whole] = ["limited", "whole"].map(|run| loss(run).unwrap());
    assert!((split / whole - 1.0).abs() < 0.05, "{split} {whole}");
    // and the run goes on with the configuration as it was written
    let resumed = place.train("limited", &[&batch[..], &["--resume", "--max-steps", "4"]].concat());
    assert!(resumed.contains("going on from step 3"), "{resumed}");
}

#[test]
fn it_stops_with_advice_where_that_is_asked_for() {
    let place = Place::new();
    let limit = ["--set", "device.memory_limit=6 MiB", "--on-oom", "fail"];
    let ended = place.run(&[&["train", "tiny.yaml", "--out", "run"][..], &with(&limit)].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let foreseen =
        "that is more than the 6.0 MiB that device.memory_limit allows: `leanburn fit CONFIG --budget 6.0MiB`";
    assert!(ended.stdout.contains(foreseen), "{}", ended.stdout);
    for words in
        ["out of memory in the forward pass of step 0", "may hold 6.0 MiB", "--on-oom step-down", "leanburn fit"]
    {
        let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words} in {text}");
    }
}

/// Large volumes and small patches: a picture of a whole volume takes more than a step.
const WIDE: [&str; 2] = ["--set", "data.phantom.shape=[48, 48, 48]"];

#[test]
fn an_evaluation_between_steps_that_does_not_fit_says_so_and_loses_nothing() {
    let place = Place::new();
    place.train("plain", &WIDE);
    let step = format!("device.memory_limit={} B", (peak(&place, "plain") + f64::from(1 << 18)) as u64);
    for (run, limit, evaluation) in
        [("validated", "device.memory_limit=1 KiB", "validation"), ("drawn", &step, "pictures")]
    {
        let begin = ["train", "tiny.yaml", "--out", run, "--set", limit];
        let ended = place.run(&[&begin[..], &WIDE].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = format!("out of memory in {evaluation} after step 0: it held");
        for words in [named.as_str(), "--resume", "data.patch_size"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        place.train(run, &[&WIDE[..], &["--resume"]].concat());
        let (there, expected) = (place.metrics(run), place.metrics("plain"));
        assert_eq!(there.len(), expected.len(), "no record is lost and none is written twice");
        let file = |run: &str| place.bytes(&format!("{run}/weights.safetensors"));
        assert!(file(run) == file("plain"), "{run}: weights differ");
    }
}

/// Keys under which everything that is saved for backward is written to files in the folder `scratch`.
const OFFLOADED: [&str; 4] =
    ["--set", "autoencoder.training.offload=[\"*\"]", "--set", "autoencoder.training.offload_folder=scratch"];

#[test]
fn an_offloaded_run_computes_the_same_in_less_and_leaves_no_file() {
    let place = Place::new();
    std::fs::create_dir(place.path("scratch")).unwrap();
    let larger = ["--set", "data.phantom.shape=[48, 48, 48]", "--set", "data.patch_size=48"];
    let with = |more: &[&'static str]| [&LARGE[..], &larger, more].concat();
    place.train("plain", &with(&[]));
    place.train("offloaded", &with(&OFFLOADED));
    for file in ["weights.safetensors", "discriminator.safetensors"] {
        assert!(place.bytes(&format!("offloaded/{file}")) == place.bytes(&format!("plain/{file}")), "{file} differs");
    }
    // The rest is what backward of the finest level computes with, and two volumes on their way.
    let (plain, offloaded) = (peak(&place, "plain"), peak(&place, "offloaded"));
    assert!(offloaded < 0.85 * plain, "{offloaded} of {plain}");
    let plan: serde_json::Value = serde_json::from_str(&place.text("offloaded/plan.json")).unwrap();
    let [planned, measured] =
        ["planned_peak_bytes", "measured_peak_bytes"].map(|name| plan[name].as_u64().unwrap() as f64);
    assert!((planned / measured - 1.0).abs() < 0.03, "{planned} planned, {measured} measured");
    assert_eq!(std::fs::read_dir(place.path("scratch")).unwrap().count(), 0);
    place.train("int8", &with(&["--set", "autoencoder.training.compress=int8"]));
    assert!(peak(&place, "int8") < 0.9 * plain);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_an_offloaded_run_with_an_error() {
    let place = Place::new();
    std::fs::create_dir(place.path("scratch")).unwrap();
    let no_pictures = ["--set", "autoencoder.training.visualize_interval=0"];
    let arguments =
        |out: &'static str| [&["train", "tiny.yaml", "--out", out][..], &LARGE, &no_pictures, &OFFLOADED].concat();
    let ended = place.run_with_small_files(64, &arguments("run"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in [
        "step 0: cannot write ",
        "of saved activations in a file in scratch: ",
        "`offload_folder`",
        "the weights are those before it",
    ] {
        assert!(ended.stderr.contains(words), "{words} in {ended:?}");
    }
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    assert_eq!(std::fs::read_dir(place.path("scratch")).unwrap().count(), 0);
    std::fs::remove_dir(place.path("scratch")).unwrap();
    let ended = place.run(&arguments("other"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for words in ["autoencoder.training.offload_folder", "a folder that takes files", "scratch: "] {
        assert!(ended.stderr.contains(words), "{words} in {ended:?}");
    }
}

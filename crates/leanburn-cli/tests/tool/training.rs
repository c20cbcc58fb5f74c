//! Runs of `train`: what they write, and that they stop and go on, on phantoms.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

use crate::common::{Place, smooth};

/// A record without what a clock and a heap say.
fn computed(mut record: Value) -> Value {
    record.as_object_mut().unwrap().remove("seconds");
    record["values"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("memory."));
    record
}

/// Asserts that two runs computed the same, step by step and bit by bit.
#[track_caller]
fn assert_same_run(place: &Place, one: &str, other: &str) {
    let records = |run| place.metrics(run).into_iter().map(computed).collect::<Vec<_>>();
    assert_eq!(records(one), records(other));
    for file in ["weights.safetensors", "discriminator.safetensors"] {
        assert!(place.bytes(&format!("{one}/{file}")) == place.bytes(&format!("{other}/{file}")), "{file} differs");
    }
}

#[test]
fn training_writes_everything() {
    let place = Place::new();
    let printed = place.train("run", &[]);
    assert!(printed.contains("memory at the peak") && printed.contains("run/report.html"), "{printed}");
    let records = place.metrics("run");
    let steps_of = |phase: &str| -> Vec<u64> {
        let records = records.iter().filter(|record| record["phase"] == phase);
        records.map(|record| record["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps_of("train"), [1, 2, 3, 4]);
    assert_eq!(steps_of("val"), [0, 2, 4]);
    for name in ["reconstruction", "kl", "generator", "discriminator", "memory.peak_bytes", "discriminator.loss_scale"]
    {
        assert!(records[1]["values"][name].is_f64(), "{name} in {}", records[1]);
    }
    assert!(place.text("run/config.yaml").contains("max_steps: 4"));
    assert_eq!(fs::read_dir(place.path("run/events")).unwrap().count(), 1);
    for step in [0, 2, 4] {
        assert!(place.bytes(&format!("run/pictures/step-{step:08}.png")).starts_with(b"\x89PNG"));
    }
    for step in [2, 4] {
        assert!(place.path(&format!("run/checkpoints/step-{step:08}/manifest.json")).is_file());
    }
    for name in ["weights", "discriminator"] {
        assert!(place.bytes(&format!("run/{name}.safetensors")).len() > 1000);
    }
    let report = place.text("run/report.html");
    assert!(!report.contains("http://") && !report.contains("https://"), "the page must not ask the network");
    for part in ["<svg", "data:image/png;base64", "optimizer states", "validation L1", "num_channels"] {
        assert!(report.contains(part), "{part}");
    }
}

#[test]
fn the_run_folder_is_runs_and_the_name_by_default() {
    let place = Place::new();
    place.succeed(&["train", "tiny.yaml", "--max-steps", "1"]);
    assert!(place.path("runs/tiny/weights.safetensors").is_file());
}

#[test]
fn training_goes_on_where_it_stopped() {
    let place = Place::new();
    let more = ["--set", "autoencoder.training.ema_decay=0.9"];
    place.train("straight", &more);
    place.train("stopped", &[&more[..], &["--max-steps", "2"]].concat());
    assert!(place.bytes("straight/weights.safetensors") != place.bytes("stopped/weights.safetensors"));
    let printed = place.train("stopped", &[&more[..], &["--resume"]].concat());
    assert!(printed.contains("going on from step 2"), "{printed}");
    assert_same_run(&place, "straight", "stopped");
}

#[test]
fn training_goes_on_after_a_crash() {
    let place = Place::new();
    place.train("straight", &[]);
    let crash = |run: &str, lost: &[&str]| {
        place.copy("straight", run);
        for step in lost {
            fs::remove_dir_all(place.path(&format!("{run}/checkpoints/{step}"))).unwrap();
        }
        fs::remove_file(place.path(&format!("{run}/weights.safetensors"))).unwrap();
        let torn = place.text(&format!("{run}/metrics.jsonl")) + "{\"step\":5,\"pha";
        fs::write(place.path(&format!("{run}/metrics.jsonl")), torn).unwrap();
        place.train(run, &["--resume"])
    };
    assert!(crash("late", &["step-00000004"]).contains("going on from step 2"));
    assert_same_run(&place, "straight", "late");
    assert!(crash("early", &["step-00000002", "step-00000004"]).contains("from the beginning"));
    assert_same_run(&place, "straight", "early");
    crash("after", &[]);
    assert_same_run(&place, "straight", "after");
}

#[test]
fn the_best_weights_are_kept_and_a_run_that_gets_no_better_ends() {
    let place = Place::new();
    let set = ["best_metric=l1", "val_interval=1", "max_steps=6", "visualize_interval=0", "weights_interval=1"];
    let set = set.map(|setting| format!("autoencoder.training.{setting}"));
    let set: Vec<&str> = set.iter().flat_map(|setting| ["--set", setting]).collect();
    let printed = place.train("straight", &set);
    let best: Value = serde_json::from_str(&place.text("straight/best/best.json")).unwrap();
    let validations: Vec<(u64, f64)> = place
        .metrics("straight")
        .iter()
        .filter(|record| record["phase"] == "val")
        .map(|record| (record["step"].as_u64().unwrap(), record["values"]["l1"].as_f64().unwrap()))
        .collect();
    let (step, value) = validations.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    assert_eq!(
        (best["metric"].as_str(), best["step"].as_u64(), best["value"].as_f64()),
        (Some("l1"), Some(step), Some(value))
    );
    assert!(printed.contains(&format!("l1 {value:.4} at step {step}")), "{printed}");
    assert!(step > 0 && validations.len() == 7, "{validations:?}");
    let there = |folder: &str| place.bytes(&format!("straight/{folder}/weights.safetensors"));
    assert!(there("best") == there(&format!("weights/step-{step:08}")), "the weights are those of the best step");
    assert!(place.text("straight/best/config.yaml") == place.text("straight/config.yaml"));

    place.train("stopped", &[&set[..], &["--max-steps", "3"]].concat());
    place.train("stopped", &[&set[..], &["--resume"]].concat());
    assert_same_run(&place, "straight", "stopped");
    for file in ["best/best.json", "best/weights.safetensors"] {
        assert!(place.bytes(&format!("straight/{file}")) == place.bytes(&format!("stopped/{file}")), "{file}");
    }

    let stop = ["early_stopping_patience=2", "early_stopping_min_delta=100"];
    let stop = stop.map(|setting| format!("autoencoder.training.{setting}"));
    let stop: Vec<&str> = set.iter().copied().chain(stop.iter().flat_map(|setting| ["--set", setting])).collect();
    let printed = place.train("early", &stop);
    assert!(printed.contains("2, stopped early"), "{printed}");
    let steps = |run: &str| place.metrics(run).iter().filter(|record| record["phase"] == "train").count();
    assert_eq!(steps("early"), 2);
    place.train("early", &[&stop[..], &["--resume"]].concat());
    assert_eq!(steps("early"), 2, "it is still over");

    let unknown = ["train", "tiny.yaml", "--out", "unknown", "--set", "autoencoder.training.best_metric=dice"];
    let ended = place.run(&unknown);
    assert!(ended.code == Some(2) && ended.stderr.contains("a validation metric: l1"), "{ended:?}");
    let alone = ["train", "tiny.yaml", "--out", "alone", "--set", "autoencoder.training.early_stopping_patience=2"];
    let ended = place.run(&alone);
    assert!(ended.code == Some(2) && ended.stderr.contains("best_metric"), "{ended:?}");
}

/// Sends a signal to a process.
#[cfg(target_os = "linux")]
fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn the_first_signal_saves_and_the_run_goes_on_as_if_there_had_been_none() {
    let place = Place::new();
    // a checkpoint is due at the end alone
    let long = ["max_steps=20", "checkpoint_interval=1000", "val_interval=20", "visualize_interval=0"];
    let long = long.map(|setting| format!("autoencoder.training.{setting}"));
    let long: Vec<&str> = long.iter().flat_map(|setting| ["--set", setting]).collect();
    place.train("straight", &long);
    for (name, code) in [("TERM", 143), ("INT", 130), ("USR1", 138)] {
        let mut command = place.command(&[&["train", "tiny.yaml", "--out", name], &long[..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        let steps = || {
            fs::read_to_string(place.path(&format!("{name}/metrics.jsonl")))
                .unwrap_or_default()
                .matches("train")
                .count()
        };
        while steps() < 3 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(2));
        }
        signal(name, child.id());
        let ended = child.wait_with_output().unwrap();
        let [stdout, stderr] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(ended.status.code(), Some(code), "{stdout}\n{stderr}");
        assert!(stderr.contains(&format!("SIG{name}: the run stops after this step and saves")), "{stderr}");
        let taken = place.metrics(name).iter().filter(|record| record["phase"] == "train").count();
        assert!((3..20).contains(&taken), "{taken}");
        assert!(
            stdout.contains(&format!("stopped after step {taken}; all is saved in {name}, and --resume")),
            "{stdout}"
        );
        let resumed = place.train(name, &[&long[..], &["--resume"]].concat());
        assert!(resumed.contains(&format!("going on from step {taken}")), "no step is lost: {resumed}");
        assert_same_run(&place, name, "straight");
    }
}

/// A step that takes minutes: the first signal waits for its end, the second does not.
#[test]
#[cfg(target_os = "linux")]
fn the_second_signal_ends_the_run_at_once() {
    let place = Place::new();
    let long = ["gradient_accumulation_steps=65536", "val_interval=1", "visualize_interval=0"];
    let long = long.map(|setting| format!("autoencoder.training.{setting}"));
    let long: Vec<&str> = long.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut command = place.command(&[&["train", "tiny.yaml", "--out", "run"], &long[..]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !place.path("run/metrics.jsonl").exists() || place.metrics("run").is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it trains until it is stopped");
        thread::sleep(Duration::from_millis(2));
    }
    signal("INT", child.id());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("SIGINT: the run stops after this step and saves; another signal stops it at once") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it says what it does");
    }
    assert!(child.try_wait().unwrap().is_none(), "the first signal lets the step go on");
    signal("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(143), "the code is that of the second");
    let (records, checkpoints) = (place.metrics("run"), place.path("run/checkpoints").exists());
    assert!(records.iter().all(|record| record["phase"] == "val") && !checkpoints, "no step was taken: {records:?}");
}

#[test]
fn training_goes_on_before_a_damaged_checkpoint_if_asked_to() {
    let place = Place::new();
    place.train("straight", &[]);
    place.copy("straight", "run");
    let damage = |step| {
        fs::write(place.path(&format!("run/checkpoints/{step}/autoencoder.weights.bpk")), "").unwrap();
        place.run(&["train", "tiny.yaml", "--out", "run", "--resume"])
    };
    let ended = damage("step-00000004");
    assert!(ended.code == Some(1) && ended.stderr.contains("--resume --skip-damaged"), "{ended:?}");
    let offered = "--resume-from run/checkpoints/step-00000002";
    assert!(ended.stderr.contains(offered), "{ended:?}");
    place.copy("run", "from");
    let printed = place.train("from", &["--resume-from", "from/checkpoints/step-00000002"]);
    assert!(printed.contains("a later checkpoint is set aside: from/checkpoints/aside-step-00000004"), "{printed}");
    assert_same_run(&place, "straight", "from");
    let printed = place.train("run", &["--resume", "--skip-damaged"]);
    assert!(printed.contains("going on from step 2"), "{printed}");
    assert_same_run(&place, "straight", "run");
    place.train("run", &["--resume"]); // the step is whole again
    damage("step-00000002");
    damage("step-00000004");
    let ended = place.run(&["train", "tiny.yaml", "--out", "run", "--resume", "--skip-damaged"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("every checkpoint of its run is damaged"), "{ended:?}");
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let place = Place::new();
    place.train("run", &[]);
    place.copy("run", "before");
    place.train("run", &["--resume"]);
    for file in ["weights.safetensors", "discriminator.safetensors", "metrics.jsonl", "config.yaml"] {
        assert!(place.bytes(&format!("before/{file}")) == place.bytes(&format!("run/{file}")), "{file}");
    }
}

#[test]
fn a_resumed_run_may_become_longer() {
    let place = Place::new();
    place.train("run", &[]);
    place.train("run", &["--resume", "--set", "autoencoder.training.max_steps=6", "--set", "data.num_workers=0"]);
    assert_eq!(place.metrics("run").last().unwrap()["step"], 6);
    assert!(place.text("run/config.yaml").contains("max_steps: 6"), "the folder says what is computed");
}

#[test]
fn a_run_is_refined_as_its_recipe_says_and_starts_from_weights() {
    let place = Place::new();
    place.train("run", &["--max-steps", "2"]);
    let training = |setting: &str| format!("autoencoder.training.{setting}");
    let [loss, rate] = ["use_perceptual_loss=true", "learning_rate=2e-5"].map(training);
    let printed = place.train("run", &["--resume", "--max-steps", "3", "--set", &loss, "--set", &rate]);
    for change in ["use_perceptual_loss: false -> true", "learning_rate: 0.01 -> 0.00002"] {
        assert!(printed.contains(&format!("changed: autoencoder.training.{change}")), "{printed}");
    }
    let last = place.metrics("run").into_iter().rfind(|record| record["phase"] == "train").unwrap();
    assert!(last["step"] == 3 && last["values"]["perceptual"].is_f64(), "{last}");

    let wider = ["--set", "autoencoder.latent_channels=4", "--max-steps", "1"];
    let printed = place.train("tuned", &[&["--from", "run"], &wider[..]].concat());
    assert!(printed.contains("tensors from run/weights.safetensors"), "{printed}");
    let again = place.train("tuned", &[&["--resume", "--from", "run"], &wider[..]].concat());
    assert!(again.contains("with the weights of this run: --from is not needed"), "{again}");
    assert!(printed.contains("  quant_conv_mu.conv.weight starts as it was drawn"), "{printed}");
    let discriminator = "discriminator: 9 of 9 tensors from run/discriminator.safetensors";
    assert!(printed.contains(discriminator), "{printed}");
}

#[test]
fn recomputation_gives_the_same_weights() {
    let place = Place::new();
    let train = |run: &str, setting: &str| {
        place.train(run, &["--set", "data.patch_size=24", "--set", &format!("autoencoder.training.{setting}")]);
        place.metrics(run)[4]["values"]["memory.peak_bytes"].as_f64().unwrap()
    };
    let kept = train("kept", "recompute=[]");
    let recomputed = train("recomputed", "use_gradient_checkpointing=true");
    let partly = train("partly", "recompute=[decoder.*, discriminator.*]");
    assert!(recomputed < partly && partly < kept, "{recomputed} and {partly} of {kept} bytes");
    assert_same_run(&place, "kept", "recomputed");
    assert_same_run(&place, "kept", "partly");
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let place = Place::new();
    place.train("one", &[]);
    place.train("three", &["--set", "data.num_workers=3"]);
    assert_same_run(&place, "one", "three");
}

#[test]
fn variants_of_training_run() {
    let place = Place::new();
    let training = "autoencoder.training";
    let variants: [(&str, Vec<String>); 8] = [
        ("plain", Vec::new()),
        ("bf16", vec!["device.precision=bf16".into()]),
        ("f16", vec!["device.mixed_precision=true".into()]),
        ("average", vec![format!("{training}.ema_decay=0.99")]),
        ("accumulation", vec![format!("{training}.gradient_accumulation_steps=2")]),
        ("clipped", vec![format!("{training}.max_grad_norm=0.1"), format!("{training}.reconstruction_loss=l2")]),
        ("alone", vec![format!("{training}.discriminator=null")]),
        ("scales", vec![format!("{training}.discriminator.num_scales=2"), "data.patch_size=16".into()]),
    ];
    let mut seen = std::collections::HashSet::new();
    for (name, settings) in variants {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        place.train(name, &settings);
        let loss = place.metrics(name)[4]["values"]["reconstruction"].as_f64().unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{name}: {loss}");
        assert!(seen.insert(place.bytes(&format!("{name}/weights.safetensors"))), "{name} is as another");
    }
    assert!(!place.path("alone/discriminator.safetensors").exists());
}

#[test]
fn a_volume_without_contrast_can_be_trained_on() {
    let place = Place::new();
    smooth([1, 12, 12, 12], 5.0, 5.0).write(place.path("flat.npy")).unwrap();
    place.train("run", &["--set", "data.phantom=null", "--set", "data.paths=[flat.npy]"]);
    place.succeed(&["reconstruct", "run/weights.safetensors", "flat.npy", "out.npy"]);
    let out = place.volume("out.npy");
    assert!(out.data().iter().all(|value| (4.0..=7.0).contains(value)), "5 and what an untrained model adds");
}

#[test]
fn files_that_come_or_go_before_a_run_goes_on_are_noticed() {
    let place = Place::new();
    fs::create_dir(place.path("scans")).unwrap();
    for name in ["a", "c"] {
        smooth([1, 16, 16, 16], 0.0, 1.0).write(place.path(&format!("scans/{name}.nii"))).unwrap();
    }
    let set = ["data.phantom=null", "data.paths=[scans]", "autoencoder.training.visualize_interval=0"];
    let set: Vec<&str> = set.iter().flat_map(|setting| ["--set", setting]).collect();
    place.train("run", &[&set[..], &["--max-steps", "2"]].concat());
    let arguments = [&["train", "tiny.yaml", "--out", "run", "--resume"], &set[..]].concat();
    let before = place.contents();
    fs::copy(place.path("scans/a.nii"), place.path("scans/b.nii")).unwrap();
    let ended = place.run(&arguments);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("new are scans/b.nii") && ended.stderr.contains("--from run"), "{ended:?}");
    fs::remove_file(place.path("scans/b.nii")).unwrap();
    assert!(place.contents() == before, "nothing was written");
    fs::rename(place.path("scans/c.nii"), place.path("c.nii")).unwrap();
    assert!(place.run(&arguments).stderr.contains("gone are scans/c.nii"));
    fs::rename(place.path("c.nii"), place.path("scans/c.nii")).unwrap();
    assert!(place.succeed(&arguments).contains("going on from step 2"));
}

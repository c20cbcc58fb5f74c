//! The systems other than the autoencoder: each is trained, goes on where it stopped, and is planned and measured.

use std::fs;

use leanburn_data::{Advection, AdvectionConfig, NavierStokes, NavierStokesConfig, Sequence, Volume};
use leanburn_systems::RunFolder;
use serde_json::Value;

use crate::common::Place;

const TRAINING: &str = "batch_size: 1, gradient_accumulation_steps: 2, max_steps: 4, learning_rate: 0.01, val_interval: 2, \
    visualize_interval: 2, checkpoint_interval: 2";
const RADAR: &str = "data: {radar: {count: 3, shape: [4, 16, 16], vehicles: 4}, normalize: none, num_workers: 1}";

/// Each system's configuration, and the metrics that it is validated by.
fn systems() -> Vec<(&'static str, String, &'static [&'static str])> {
    let codebook = "codebook: {num_embeddings: 8, restart_below: 0.1}";
    vec![
        (
            "vae3d",
            format!("vae_type: ultra_lightweight\nvae3d: {{training: {{{TRAINING}, occupancy_weight: 4}}}}\n{RADAR}\n"),
            &["l1", "reconstruction", "iou"],
        ),
        (
            "vae3d_codebook",
            format!("vae3d: {{{codebook}, training: {{{TRAINING}, use_perceptual_loss: true}}}}\n{RADAR}\n"),
            &["l1", "iou", "codes_used", "perplexity"],
        ),
        (
            "vqvae",
            format!(
                "vqvae: {{channels: [4, 8], embedding_dim: 4, {codebook}, training: {{{TRAINING}}}}}\n\
                 data: {{phantom: {{count: 3, shape: [8, 8, 12]}}, num_workers: 1}}\n"
            ),
            &["l1", "codes_used", "perplexity"],
        ),
        ("convlstm", forecaster("convlstm"), &["rmse", "mae", "skill"]),
        (
            "bev",
            format!(
                "scenes: {{count: 6, image_size: [16, 24], map: {{x: [-8, 8], z: [2, 18], cell: 1}}, num_workers: 1}}\n\
                 bev: {{backbone: {{embed_dim: 6, depths: [1, 1], num_heads: [1, 2], window_size: 2}}, depth: [2, 18, 4], \
                 bev_channels: 4, channels: 8, layers: [1, 1], norm_num_groups: 2, training: {{{TRAINING}}}}}\n"
            ),
            &["miou", "prior_miou", "iou_drivable"],
        ),
        ("3dcnn_lstm_lite", forecaster("3dcnn_lstm_lite"), &["rmse", "mae", "skill"]),
        (
            "operator",
            format!(
                "operator: {{widths: 4, modes: [3, 3], num_layers: 2, batch_norm: true, training: {{{TRAINING}}}}}\n\
                 sequence: {{navier_stokes: {{trajectories: 3, steps: 3, size: 12, solver_size: 32}}, num_workers: 1,\n  \
                 input_days: 1, use_channels: [0]}}\n"
            ),
            &["relative_l2", "skill", "top_octave_error"],
        ),
        (
            // 4 windows to train on are 2 steps an epoch
            "conv_in_epochs",
            format!(
                "operator: {{model: conv, widths: 4, num_layers: 1, training: {{{}, max_epochs: 2,\n  lr_schedule: step, \
                 lr_step_epochs: 1, lr_gamma: 0.5}}}}\n\
                 sequence: {{navier_stokes: {{trajectories: 3, steps: 3, size: 12, solver_size: 32}}, num_workers: 1,\n  \
                 input_days: 1, use_channels: [0]}}\n",
                TRAINING.replace("max_steps: 4, ", "")
            ),
            &["relative_l2", "relative_l2_persistence", "top_octave_ratio"],
        ),
        (
            "super_resolving_operator",
            format!(
                "operator: {{model: diffsr, widths: [4, 4, 6], modes: [3, 2], rank: 0.5, training: {{{TRAINING}}}}}\n\
                 sequence: {{advection: {{steps: 10, shape: [8, 12]}}, use_channels: [0], sample_factor: 2, pointwise: true}}\n"
            ),
            &["relative_l2", "skill"],
        ),
        (
            "super_resolution",
            format!(
                "super_resolution: {{model: sr3, num_channels: [4, 8], num_res_blocks: 1, dropout: 0.1, training: {{{TRAINING}, \
                 num_inference_steps: 2, num_samples: 2, val_windows: 1}}}}\n\
                 sequence: {{advection: {{steps: 10, shape: [8, 12]}}, use_channels: [0], sample_factor: 2}}\n"
            ),
            &["psnr", "ssim", "relative_l2", "psnr_one", "psnr_bicubic", "top_octave_ratio"],
        ),
    ]
}

fn forecaster(model_type: &str) -> String {
    format!(
        "model_type: {model_type}\ninput_days: 4\npredict_days: 2\nuse_channels: [1, 0]\n\
         forecaster: {{training: {{{TRAINING}}}}}\n\
         sequence: {{advection: {{steps: 40, shape: [8, 10]}}, target_channel: 0, num_workers: 1}}\n"
    )
}

/// A record without what a clock and a heap say.
fn computed(mut record: Value) -> Value {
    record.as_object_mut().unwrap().remove("seconds");
    record["values"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("memory."));
    record
}

#[test]
fn each_system_trains_and_goes_on_where_it_stopped() {
    for (name, config, metrics) in systems() {
        let (place, file) = Place::with(name, &config);
        let printed = place.succeed(&["train", &file, "--out", "straight"]);
        assert!(printed.contains("memory at the peak"), "{name}: {printed}");
        let records = place.metrics("straight");
        let validations: Vec<_> = records.iter().filter(|record| record["phase"] == "val").collect();
        assert_eq!(validations.len(), 3, "{name}");
        for metric in metrics {
            assert!(validations[2]["values"][metric].is_f64(), "{name}: {metric} in {}", validations[2]);
        }
        assert!(place.bytes("straight/pictures/step-00000004.png").starts_with(b"\x89PNG"));
        let report = place.text("straight/report.html");
        assert!(report.contains(&format!("validation {}", metrics[1].replace('_', " "))), "{name}");

        place.succeed(&["train", &file, "--out", "stopped", "--max-steps", "2"]);
        place.succeed(&["train", &file, "--out", "stopped", "--resume"]);
        let stopped: Vec<_> = place.metrics("stopped").into_iter().map(computed).collect();
        assert_eq!(stopped, records.into_iter().map(computed).collect::<Vec<_>>(), "{name}");
        let weights = |run: &str| place.bytes(&format!("{run}/weights.safetensors"));
        assert!(weights("stopped") == weights("straight"), "{name}: weights differ");
    }
}

#[test]
fn each_system_is_planned_and_measured() {
    for (name, config, _) in systems() {
        let (place, file) = Place::with(name, &config);
        let json = |arguments: &[&str]| -> Value { serde_json::from_str(&place.succeed(arguments)).unwrap() };
        let plan = json(&["plan", &file, "--json"]);
        let peak = plan["step_peak_bytes"].as_u64().unwrap();
        assert!(peak > 10_000, "{name}: {plan}");
        let measured = json(&["measure", &file, "--steps", "1", "--json"]);
        let step = measured["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "step").unwrap();
        // at this size other bytes outweigh tensors; `planned_peak` and `systems` of the trainer compare the two
        assert!(step["measured_bytes"].as_u64().unwrap() > 10_000, "{name}: {measured}");
        assert!(step["predicted_bytes"].as_u64().unwrap() > 10_000, "{name}: {measured}");
        let fitted = json(&["fit", &file, "--budget", "1GiB", "--out", "fitted.yaml", "--json"]);
        assert!(fitted["plan"].is_object(), "{name}: {fitted}");
        assert!(json(&["plan", "fitted.yaml", "--json"])["step_peak_bytes"].is_u64(), "{name}");
    }
}

#[test]
fn sizes_are_compared_side_by_side() {
    let tables: Value = serde_json::from_str(&Place::new().succeed(&["plan", "--compare", "--json"])).unwrap();
    let row = |table: usize, name: &str| {
        let rows = tables[table]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(name)).unwrap();
        (row["parameters"].as_u64().unwrap(), row["peak_bytes"].as_u64().unwrap())
    };
    assert_eq!(row(1, "convlstm").0, 11_601);
    assert_eq!(row(1, "3dcnn_lstm,").0, 114_833);
    assert_eq!(row(1, "3dcnn_lstm_micro").0, 2_617);
    assert_eq!(row(0, "standard").0, 41_638_132);
    let micro = &tables[1]["rows"].as_array().unwrap()[3];
    let [kept, peak] = ["saved_activation_bytes", "peak_bytes"].map(|key| micro[key].as_u64().unwrap());
    assert!(
        micro["name"] == "3dcnn_lstm_micro, batch 4" && kept > peak / 4,
        "the most saved activations, not those at the peak: {micro}"
    );
    let names = ["standard", "lightweight", "ultra_lightweight", "+ bf16", "+ recomputation"];
    let peaks = names.map(|name| row(0, name).1);
    assert!(peaks.is_sorted_by(|one, next| one > next), "{peaks:?}");

    let (place, file) = Place::with("convlstm", &forecaster("convlstm"));
    let printed = place.succeed(&["plan", "--compare", &file, "--budget", "200KiB"]);
    assert!(printed.contains("4 days of 2 x 8 x 10 fields") && printed.contains("fits"), "{printed}");
    let rejected = place.run(&["plan", "--compare", "tiny.yaml"]);
    assert_eq!(rejected.code, Some(2));
    assert!(rejected.stderr.contains("`vae3d` or `forecaster`"), "{}", rejected.stderr);
}

#[test]
fn what_does_not_fit_together_is_rejected_before_a_run() {
    let reject = |config: String, parts: &[&str]| {
        let (place, file) = Place::with("wrong", &config);
        let ended = place.run(&["train", &file]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        parts.iter().for_each(|part| assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr));
        assert!(!place.path("runs").exists());
    };
    reject(
        forecaster("convlstm").replace("forecaster: {", "forecaster: {in_channels: 3, "),
        &["in_channels", "found 2"],
    );
    reject(systems()[0].1.replace("[4, 16, 16]", "[4, 16, 18]"), &["[4, 16, 18]", "multiples"]);
    reject(systems()[2].1.replace("[8, 8, 12]", "[8, 8, 13]"), &["[8, 8, 13]", "multiples"]);
    reject(
        forecaster("convlstm").replace("max_steps: 4", "max_steps: 4, recompute: [nothing]"),
        &["forecaster.training.recompute", "names no segment", "steps_0"],
    );
}

#[test]
fn volumes_go_through_every_codec_and_its_latent() {
    let extents = [("vae3d", [4, 9, 8, 10]), ("vae3d_codebook", [4, 9, 8, 10]), ("vqvae", [1, 7, 8, 10])];
    for (name, shape) in extents {
        let config = systems().into_iter().find(|system| system.0 == name).unwrap().1;
        let (place, file) = Place::with(
            name,
            &config.replace("data: {", "data: {normalize: none, ").replace(", normalize: none, num", ", num"),
        );
        place.succeed(&["train", &file, "--out", "run", "--max-steps", "1"]);
        let affine = [[1.0, 0.0, 0.0, 3.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.5, 0.0], [0.0, 0.0, 0.0, 1.0]];
        crate::common::placed(shape, 0.0, 1.0, affine).write(place.path("in.safetensors")).unwrap();
        let run = |command: &str, input: &str, out: &str, more: &[&str]| {
            let arguments = [&[command, "run/weights.safetensors", input, out, "--force"], more].concat();
            place.succeed(&arguments);
            place.volume(out)
        };
        let direct = run("reconstruct", "in.safetensors", "direct.safetensors", &[]);
        assert_eq!((direct.shape(), direct.affine()), (shape, &affine), "{name}");
        let latent = run("encode", "in.safetensors", "latent.safetensors", &[]);
        let decoded = run("decode", "latent.safetensors", "decoded.safetensors", &[]);
        assert_eq!(decoded.affine(), &affine, "{name}");
        let last = |volume: &Volume| volume.data()[..10].to_vec(); // a row that padding does not touch
        let largest = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(largest(&last(&direct), &last(&decoded)) < 1e-5, "{name}");
        if name != "vqvae" {
            continue;
        }
        // one patch that holds all is the whole; several give other values near their borders, on the same grids
        for (command, input, whole) in [
            ("encode", "in.safetensors", &latent),
            ("decode", "latent.safetensors", &decoded),
            ("reconstruct", "in.safetensors", &direct),
        ] {
            let one = run(command, input, "one.safetensors", &["--patch", "64"]);
            assert!(largest(one.data(), whole.data()) < 1e-5, "{name}: {command}");
            let several = run(command, input, "several.safetensors", &["--patch", "4"]);
            assert_eq!((several.shape(), several.affine()), (whole.shape(), whole.affine()), "{name}: {command}");
            assert!(several.data() != whole.data(), "{name}: {command}");
        }
    }
}

/// A forecaster forecasts in the units of its fields: of fields in other units it learns and says the same in those.
#[test]
fn fields_are_forecast_in_their_units() {
    let place = Place::new();
    let advection = AdvectionConfig { steps: 40, shape: [8, 10], ..AdvectionConfig::default() };
    let fields = Advection::new(&advection, 3).unwrap().sequence().unwrap();
    let scaled: Vec<f32> = fields.data().iter().map(|value| 10.0 * value + 500.0).collect();
    let scaled = Sequence::new(scaled, fields.shape()).unwrap();
    let mut forecasts = Vec::new();
    for (name, fields) in [("plain", &fields), ("scaled", &scaled)] {
        let path = |file: &str| place.path(&format!("{name}/{file}"));
        fs::create_dir_all(path("days")).unwrap();
        fields.write(path("days/all.npy")).unwrap();
        fields.last(4).unwrap().write(path("days/last.npy")).unwrap();
        let config = forecaster("convlstm").replace("advection: {steps: 40, shape: [8, 10]}", "paths: [days/all.npy]");
        let config = config.replace("days/all.npy", &format!("{name}/days/all.npy"));
        fs::write(path("fields.yaml"), config).unwrap();
        let (file, run) = (format!("{name}/fields.yaml"), format!("{name}/run"));
        place.succeed(&["train", &file, "--out", &run]);
        let (weights, days, out) =
            (format!("{run}/weights.safetensors"), format!("{name}/days/*.npy"), format!("{name}/out"));
        let printed = place.succeed(&["predict", &weights, &days, &out]);
        assert!(printed.contains("all.npy: 2 x 8 x 10") && printed.contains("last.npy: "), "{printed}");
        let [all, last] = ["out/all.npy", "out/last.npy"].map(|file| Sequence::read(path(file)).unwrap());
        assert_eq!((all.shape(), all.data()), ([2, 1, 8, 10], last.data()), "the last fields decide");
        forecasts.push(all);

        fields.last(3).unwrap().write(path("few.npy")).unwrap();
        let few = format!("{name}/few.npy");
        let ended = place.run(&["predict", &weights, &few, &format!("{name}/none.npy")]);
        assert!(
            ended.code != Some(0) && ended.stderr.contains("few.npy") && ended.stderr.contains("4 frames"),
            "{ended:?}"
        );
        assert!(!path("none.npy").exists());
        fs::remove_file(path("run/normalization.json")).unwrap();
        let ended = place.run(&["predict", &weights, &days, &out, "--force"]);
        assert!(ended.code == Some(2) && ended.stderr.contains("normalization.json"), "{ended:?}");
    }
    let spread = |values: &[f32]| values.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
    let differences = forecasts[0].data().iter().zip(forecasts[1].data());
    let differences: Vec<f32> = differences.map(|(plain, scaled)| 10.0 * plain + 500.0 - scaled).collect();
    assert!(spread(forecasts[0].data()) > 0.01 && spread(&differences) < 0.05, "{}", spread(&differences));
    let ended = place.run(&["predict", "plain/run/weights.safetensors", "plain/days/all.npy", "out.nii"]);
    assert!(ended.code == Some(2) && ended.stderr.contains(".npy"), "{ended:?}");
}

/// An operator's weights work on other grids, and what it predicts can be seen again.
#[test]
fn an_operator_predicts_step_by_step_and_is_evaluated_on_other_grids() {
    let (place, file) = Place::with(
        "flows",
        "sequence: {navier_stokes: {trajectories: 3, steps: 3, size: 12, solver_size: 32}, num_workers: 1, input_days: 1}\n\
         operator: {widths: 4, modes: [3, 3], num_layers: 1, training: {max_epochs: 0.5, batch_size: 2, learning_rate: 0.01}}\n",
    );
    place.succeed(&["train", &file, "--out", "run"]);
    let fields = |size: usize| {
        let flows = NavierStokesConfig { trajectories: 1, steps: 2, size, solver_size: 32, ..Default::default() };
        NavierStokes::new(&flows, 5).unwrap().sequence().unwrap()
    };
    let weights = "run/weights.safetensors";
    for size in [12, 18] {
        fields(size).write(place.path("seen.npy")).unwrap();
        let predict = |input: &str, out: &str, steps: &str| {
            place.succeed(&["predict", weights, input, out, "--steps", steps, "--force"]);
            Sequence::read(place.path(out)).unwrap()
        };
        let all = predict("seen.npy", "all.npy", "3");
        assert_eq!(all.shape(), [3, 1, size, size]);
        let first = predict("seen.npy", "first.npy", "1");
        let second = predict("first.npy", "second.npy", "1");
        assert_eq!(first.data(), &all.data()[..size * size]);
        let apart = second.data().iter().zip(&all.data()[size * size..]).map(|(one, other)| (one - other).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-5, "a step from the file of the step before is the next step");
    }
    let evaluate = |set: &str| -> Value {
        let printed = place.succeed(&["evaluate", weights, "--set", set, "--json"]);
        serde_json::from_str(&printed).unwrap()
    };
    let records = leanburn_systems::metrics::read_metrics(&place.path("run/metrics.jsonl")).unwrap();
    let last = records.iter().rfind(|record| record.values.contains_key("relative_l2")).unwrap();
    let same = evaluate("sequence.navier_stokes.size=12");
    assert_eq!(same["relative_l2"].as_f64(), last.values.get("relative_l2").copied(), "{same}");
    let checkpoint = RunFolder::new(place.path("run")).newest_checkpoint(false).unwrap().unwrap().1;
    for source in ["run", checkpoint.to_str().unwrap()] {
        let printed = place.succeed(&["evaluate", source, "--config", "run/config.yaml", "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), same, "{source}");
    }
    let finer = evaluate("sequence.navier_stokes.size=18");
    assert!(finer["relative_l2"] != same["relative_l2"] && finer["skill"].is_number(), "{finer}");
    for (arguments, said) in [
        (&["evaluate", weights, "--set", "operator.widths=5"][..], "the model whose weights these are"),
        (&["evaluate", weights, "--set", "sequence.val_fraction=0"], "validation samples"),
        (&["predict", weights, "seen.npy", "none.npy", "--steps", "0"], "at least 1"),
    ] {
        let ended = place.run(arguments);
        assert!(ended.code == Some(2) && ended.stderr.contains(said), "{ended:?}");
    }
    // Of a model that refines the grid, each field of the file is refined; normalized place by place, on its grid alone.
    let (_, config, _) = systems().into_iter().find(|system| system.0 == "super_resolving_operator").unwrap();
    fs::write(place.path("fine.yaml"), config).unwrap();
    place.succeed(&["train", "fine.yaml", "--out", "fine"]);
    let coarse = |height: usize| {
        let values = (0..3 * height * 6).map(|at| at as f32 * 0.1).collect();
        Sequence::new(values, [3, 1, height, 6]).unwrap().write(place.path("coarse.npy")).unwrap();
    };
    coarse(4);
    place.succeed(&["predict", "fine/weights.safetensors", "coarse.npy", "refined.npy"]);
    assert_eq!(Sequence::read(place.path("refined.npy")).unwrap().shape(), [3, 1, 8, 12]);
    coarse(5);
    let ended = place.run(&["predict", "fine/weights.safetensors", "coarse.npy", "none.npy"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("pointwise"), "{ended:?}");
}

#[test]
fn a_forecaster_is_no_codec() {
    let (place, file) = Place::with("convlstm", &forecaster("convlstm"));
    place.succeed(&["train", &file, "--out", "run", "--max-steps", "1"]);
    crate::common::smooth([1, 8, 8, 12], 0.0, 1.0).write(place.path("in.nii")).unwrap();
    let ended = place.run(&["reconstruct", "run/weights.safetensors", "in.nii", "out.nii"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("`vae3d` or `vqvae`") && ended.stderr.contains("`forecaster`"), "{}", ended.stderr);
    assert!(!place.path("out.nii").exists());
}

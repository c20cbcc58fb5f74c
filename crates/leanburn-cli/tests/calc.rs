//! `leanburn calc` as people use it: the formula, the advice, the exit codes.

mod common;

use std::fs;

use common::{Ended, Place};
use serde_json::Value;

const FNO: &str = "\
model: {name: FNO2d, width: 64}
data: {shape: [64, 64], train_batchsize: 512}
";

/// The answer as JSON, and the exit code.
#[track_caller]
fn ask(place: &Place, arguments: &[&str]) -> (Value, i32) {
    let ended = place.run(&[&["calc", "--json"], arguments].concat());
    let answer = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    assert!(ended.stderr.is_empty(), "an unsafe configuration is no error: {}", ended.stderr);
    (answer, ended.code.unwrap())
}

/// The flags for batch, seq_len, height, width, hidden_dim, num_layers and gpu_memory.
fn flags(numbers: [&str; 7]) -> Vec<&str> {
    let names = ["--batch", "--seq_len", "--height", "--width", "--hidden_dim", "--num_layers", "--gpu_memory"];
    names.into_iter().zip(numbers).flat_map(|(name, number)| [name, number]).collect()
}

#[track_caller]
fn reject(place: &Place, arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = place.run(&[&["calc"], arguments].concat());
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    stderr
}

/// What an answer that is over the budget advises.
struct Expected {
    batch: u64,
    sides: [u64; 2],
    steps: u64,
    micro_batch: u64,
}

#[test]
fn ten_cases() {
    let over = |batch, sides, steps, micro_batch| Some(Expected { batch, sides, steps, micro_batch });
    let mib = |mib: u64| mib << 20;
    // batch, seq_len, height, width, hidden_dim, num_layers, gpu_memory; bytes a layer, in all, advice
    let cases = [
        (["8", "1", "128", "128", "256", "10", "24"], mib(128), mib(1280), None),
        (["16", "1", "256", "256", "512", "10", "24"], mib(2048), mib(20_480), over(13, [234, 234], 2, 8)),
        (["1", "1", "1", "1", "1", "1", "1"], 4, 4, None),
        // 7.000 GiB is not below 70 % of 10 GiB, one row less is
        (["1", "1", "1024", "1024", "256", "7", "10"], mib(1024), mib(7168), over(1, [1024, 1024], 1, 1)),
        (["1", "1", "1023", "1024", "256", "7", "10"], mib(1023), mib(7161), None),
        // a sequence counts, sides differ, the batch is already 1
        (["1", "64", "256", "192", "16", "24", "2"], mib(192), mib(4608), over(1, [142, 107], 1, 1)),
        // a third of the limit: 10 = 4 + 3 + 3
        (["10", "1", "512", "512", "64", "24", "10"], mib(640), mib(15_360), over(4, [349, 349], 3, 4)),
        // half a GB, half a layer at a time
        (["2", "1", "256", "256", "512", "2", "0.5"], mib(256), mib(512), over(1, [214, 214], 2, 1)),
        // even one sample is too much, and both sides end at 1
        (["3", "1", "2", "1", "1048576", "1000", "1"], mib(24), mib(24_000), over(1, [1, 1], 3, 1)),
        (["4", "7", "100", "150", "48", "6", "12"], 80_640_000, 483_840_000, None),
    ];
    let place = Place::new();
    for (numbers, layer, total, advice) in cases {
        let (answer, code) = ask(&place, &flags(numbers));
        assert_eq!((answer["layer_bytes"].as_u64(), answer["total_bytes"].as_u64()), (Some(layer), Some(total)));
        assert_eq!((answer["is_safe"].as_bool(), code), (Some(advice.is_none()), i32::from(advice.is_some())));
        let Some(Expected { batch, sides: [height, width], steps, micro_batch }) = advice else {
            assert!(answer["advice"].is_null(), "{numbers:?}: {answer}");
            continue;
        };
        let advised = |path: &str| answer["advice"].pointer(path).and_then(Value::as_u64);
        assert_eq!(advised("/batch/batch"), Some(batch), "{numbers:?}");
        assert_eq!((advised("/resolution/height"), advised("/resolution/width")), (Some(height), Some(width)));
        let accumulation = (advised("/accumulation/steps"), advised("/accumulation/micro_batch"));
        assert_eq!(accumulation, (Some(steps), Some(micro_batch)), "{numbers:?}");
        assert_eq!(advised("/mixed_precision/total_bytes"), Some(total / 2));
    }
}

#[test]
fn the_safe_case_in_words() {
    let ended = Place::new().run(&[&["calc"], &flags(["8", "1", "128", "128", "256", "10", "24"])[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for part in [
        "= 0.125 GiB\n",
        "10 layers: 1.25 GiB\n",
        "counted as 24.00 GiB; safe below 70 % = 16.80 GiB\n",
        "safe: 1.25 GiB",
        "rule of thumb",
        "weights, gradients and optimizer states",
        "`leanburn plan CONFIG`",
    ] {
        assert!(ended.stdout.contains(part), "{part} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("instead of"), "{}", ended.stdout);
}

#[test]
fn the_case_over_budget_in_words() {
    let ended = Place::new().run(&[&["calc"], &flags(["16", "1", "256", "256", "512", "10", "24"])[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "an unsafe configuration is no error");
    let advice = "\
over: 20.00 GiB is not below 16.80 GiB. Any of these, in this order:
  1. batch: 13 instead of 16 (16.25 GiB)
  2. resolution: 234 x 234 instead of 256 x 256 (16.71 GiB)
  3. accumulation: 2 steps of 8 keep the batch of 16 (10.00 GiB)
  4. mixed precision: 2 bytes a value halve it (10.00 GiB)
";
    assert!(ended.stdout.contains(advice), "{}", ended.stdout);
}

#[test]
fn flags_may_be_hyphenated_and_seq_len_left_out() {
    let place = Place::new();
    let hyphenated = ["--batch", "16", "--height", "256", "--width", "256"];
    let rest = ["--hidden-dim", "512", "--num-layers", "10", "--gpu-memory", "24"];
    let underscored = ask(&place, &flags(["16", "1", "256", "256", "512", "10", "24"]));
    assert_eq!(ask(&place, &[hyphenated, rest].concat()), underscored);
}

#[test]
fn a_configuration_gives_the_numbers() {
    let place = Place::new();
    fs::write(place.path("fno.yaml"), FNO).unwrap();
    // 512 x 64 x 64 x 64 x 4 bytes = 0.5 GiB, 4 layers, on a card of 24 GB if none is named
    let (answer, code) = ask(&place, &["--config", "fno.yaml"]);
    assert_eq!((answer["total_bytes"].as_u64(), code), (Some(2 << 30), 0));
    assert_eq!(answer["gpu_bytes"].as_u64(), Some(24 << 30));
    assert_eq!(answer["configuration"]["kind"], "a Fourier neural operator (`FNO2d`)");
    assert_eq!(answer["configuration"]["figures"]["batch"], "data.train_batchsize");
    assert!(answer["instead"].as_str().unwrap().contains("`leanburn plan fno.yaml`"));
    fs::write(place.path("swin.yaml"), FNO.replace("FNO2d", "SwinIR")).unwrap();
    let other = ask(&place, &["--config", "swin.yaml", "--num_layers", "4"]).0["instead"].clone();
    assert!(other.as_str().unwrap().contains("cannot build a transformer (`SwinIR`) yet"), "{other}");
    assert!(answer["planned"].is_null(), "the file says no modes, and is none of ours: {answer}");
    let (answer, code) = ask(&place, &["--config", "fno.yaml", "--gpu_memory", "2"]);
    assert_eq!((answer["advice"]["batch"]["batch"].as_u64(), code), (Some(358), 1));
    assert_eq!(answer["configuration"]["figures"]["num_layers"], "assumed: the default of an FNO");
    // a flag goes before what the file says or does not
    let (answer, _) = ask(&place, &["--config", "fno.yaml", "--num_layers", "8"]);
    assert_eq!(answer["total_bytes"].as_u64(), Some(4 << 30));
    assert_eq!(answer["configuration"]["figures"]["num_layers"], "the flag");
    let (answer, _) = ask(&place, &["--config", "fno.yaml", "--batch", "256"]);
    assert_eq!(answer["total_bytes"].as_u64(), Some(1 << 30));
    assert_eq!(answer["configuration"]["figures"]["batch"], "the flag");
    let (answer, code) = ask(&place, &["--config", "fno.yaml", "--gpu_memory", "3", "--threshold", "60"]);
    assert_eq!((&answer["is_safe"], code), (&serde_json::json!(false), 1), "2 GiB are 67 % of 3");
    let rejected = reject(&place, &["--config", "fno.yaml", "--threshold", "0"]);
    assert!(
        rejected.contains("--threshold: expected a share of the card from 1 to 100 percent, found 0"),
        "{rejected}"
    );
}

/// DiffSR's `ns2d/fno.yaml`, with a smaller batch.
const WHOLE_FNO: &str = "\
model: {name: 'FNO2d', modes1: [15, 12, 9, 9, 9], modes2: [15, 12, 9, 9, 9], width: 64, fc_dim: 128, layers: [16, 24, 24, 32, 32],
  in_dim: 1, out_dim: 1, act: 'gelu', pos_dim: 2, upsample_factor: [4, 4]}
data: {name: 'NavierStokes2D', data_path: '/data/NavierStokes_V1e-5_N1200_T20.mat', sample_factor: 4, shape: [64, 64],
  train_batchsize: 16, eval_batchsize: 512, train_ratio: 0.98, valid_ratio: 0.01, test_ratio: 0.01, subset: False, subset_ratio: 0.1,
  normalize: True, normalizer_type: 'PGN'}
train: {random_seed: 42, cuda: True, device: 0, epochs: 500, patience: 10, eval_freq: 5, saving_best: True, load_ckpt: False,
  saving_ckpt: True, ckpt_freq: 5, ckpt_max: 5, distribute: False, distribute_mode: 'DDP', device_ids: [0, 1, 2, 3]}
optimize: {optimizer: 'AdamW', lr: 0.001, weight_decay: 0.001}
schedule: {scheduler: 'StepLR', step_size: 300, gamma: 0.5}
log: {verbose: True, log: True, log_dir: '/home/logs/fno2d', wandb: True, wandb_project: 'DiffSR-FNO2d-ns2d'}
";

/// The rule's figure, and beside it what the plan of the same file says.
#[test]
fn the_plan_stands_beside_the_figure_of_a_file_that_can_be_planned() {
    let place = Place::new();
    fs::write(place.path("fno.yaml"), WHOLE_FNO).unwrap();
    // 16 x 64 x 64 x 64 x 4 bytes = 16 MiB, 4 layers
    let (answer, _) = ask(&place, &["--config", "fno.yaml"]);
    assert_eq!(answer["total_bytes"].as_u64(), Some(64 << 20));
    let planned: Value =
        serde_json::from_str(&place.run(&["plan", "fno.yaml", "--budget", "24GiB", "--json"]).stdout).unwrap();
    assert_eq!(answer["planned"]["needed_bytes"], planned["needed_bytes"], "{planned}");
    let said = place.run(&["calc", "--config", "fno.yaml"]).stdout;
    assert!(
        said.contains("4 layers: 0.062 GiB") && said.contains("fits: needs ") && said.contains("times the rule's"),
        "{said}"
    );
}

#[test]
fn our_own_configuration_is_one() {
    let place = Place::new();
    place.succeed(&["init", "autoencoder-24gb", "--out", "ours.yaml"]);
    // 256 x 256 x 64 x 16 x 4 bytes = 0.25 GiB, twice 6 blocks
    let (answer, code) = ask(&place, &["--config", "ours.yaml"]);
    assert_eq!((answer["total_bytes"].as_u64(), code), (Some(3 << 30), 0));
    assert_eq!(answer["instead"], "`leanburn plan ours.yaml` traces the real training step and says what it needs");
}

#[test]
fn a_configuration_that_says_too_little() {
    let place = Place::new();
    fs::write(place.path("forecast.yaml"), "{model_type: convlstm, batch_size: 8, input_days: 7}").unwrap();
    let rejected = reject(&place, &["--config", "forecast.yaml", "--height", "64"]);
    for flag in ["--width", "--hidden_dim", "--num_layers"] {
        assert!(rejected.contains(&format!("{flag}: expected a whole number")), "{flag} in {rejected}");
    }
    assert!(rejected.contains("3 errors") && !rejected.contains("--batch:"), "{rejected}");
    fs::write(place.path("excerpt.yaml"), "autoencoder: {num_channels: [16, 32]}").unwrap();
    let rejected = reject(&place, &["--config", "excerpt.yaml", "--height", "64", "--width", "64"]);
    assert!(
        rejected.contains("1 error in") && rejected.contains("--seq_len: expected"),
        "no depth is not flat: {rejected}"
    );
    let more =
        ["--config", "forecast.yaml", "--height", "64", "--width", "64", "--hidden_dim", "32", "--num_layers", "2"];
    let (answer, code) = ask(&place, &more);
    assert_eq!((answer["total_bytes"].as_u64(), code), (Some(8 * 7 * 64 * 64 * 32 * 4 * 2), 0));
    assert_eq!(answer["configuration"]["figures"]["height"], "the flag");
}

#[test]
fn a_scale_of_the_loss_is_recognised() {
    let place = Place::new();
    fs::write(place.path("fp16.yaml"), format!("{FNO}fp16: {{enabled: true, loss_scale: 512}}\n")).unwrap();
    let (answer, _) = ask(&place, &["--config", "fp16.yaml"]);
    assert_eq!(answer["configuration"]["loss_scale"].as_f64(), Some(512.0));
    let ended = place.run(&["calc", "--config", "fp16.yaml", "--gpu_memory", "1"]);
    assert!(ended.stdout.contains("half precision: f16, loss scale 512\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("mixed precision (the configuration has it on)"), "{}", ended.stdout);
}

#[test]
fn all_errors_at_once() {
    let place = Place::new();
    let rejected = reject(&place, &flags(["0", "1.5", "-2", "many", "99999999999", "", "-1"]));
    assert!(rejected.contains("7 errors in the arguments"), "{rejected}");
    for (flag, found) in [("batch", "`0`"), ("seq_len", "`1.5`"), ("height", "`-2`"), ("width", "`many`")] {
        assert!(rejected.contains(&format!("--{flag}: expected a whole number from 1 to 4294967295, found {found}")));
    }
    for (flag, found) in [("hidden_dim", "`99999999999`"), ("num_layers", "``"), ("gpu_memory", "-1")] {
        let line = rejected.lines().find(|line| line.contains(&format!("--{flag}:"))).unwrap();
        assert!(line.ends_with(&format!("found {found}")), "{line}");
    }
    let rejected = reject(&place, &[]);
    assert!(rejected.contains("6 errors in the arguments"), "{rejected}");
    let large = "4294967295";
    let rejected = reject(&place, &flags([large, large, large, large, large, large, "nan"]));
    assert!(rejected.contains("less than 2^64 bytes") && rejected.contains("--gpu_memory"), "{rejected}");
}

#[test]
fn files_of_no_use() {
    let place = Place::new();
    for (text, expected) in [("a: 1", "an autoencoder (`autoencoder` at the top)"), ("a: [", "expected YAML")] {
        fs::write(place.path("odd.yaml"), text).unwrap();
        let rejected = reject(&place, &["--config", "odd.yaml", "--batch", "-1"]);
        assert!(rejected.contains("2 errors") && rejected.contains("odd.yaml: expected"), "{rejected}");
        assert!(rejected.contains(expected) && rejected.contains("--batch"), "{rejected}");
    }
    assert!(reject(&place, &["--config", "absent.yaml"]).contains("absent.yaml: expected a readable"));
    fs::write(place.path("wrong.yaml"), FNO.replace("512", "0")).unwrap();
    let rejected = reject(&place, &["--config", "wrong.yaml"]);
    assert!(rejected.contains("under data.train_batchsize in the configuration, found 0"), "{rejected}");
}

//! `leanburn fit`, confirmed by `plan` and `measure`.

use bytesize::ByteSize;
use serde_json::Value;

use super::{ALONE, ONE_LEVEL, SETTINGS, ask, ask_tiny, bytes, number, reject, run};
use crate::common::{Ended, Place};

/// One level with attention over 13,824 positions: at most 303 queries at a time.
const ATTENTION: [&str; 14] = [
    "--set",
    "data.phantom.shape=[24,24,24]",
    "--set",
    "data.patch_size=24",
    "--set",
    "autoencoder.num_channels=[4]",
    "--set",
    "autoencoder.attention_levels=[true]",
    "--set",
    "autoencoder.training.discriminator=null",
    "--set",
    "device.name=vulkan",
    "--set",
    "autoencoder.training.adversarial_start_step=0",
];

#[test]
fn a_smaller_block_of_attention_is_one_more_lossless_option() {
    let place = Place::new();
    let tiny = |command: &'static str| [&[command, "tiny.yaml"], &ATTENTION[..]].concat();
    let peak = |block: &str| {
        let set = format!("autoencoder.training.attention_block={block}");
        number(&ask(&place, &[&tiny("plan")[..], &["--set", &set]].concat()).0, "step_peak_bytes")
    };
    let peaks = ["null", "256", "128", "64"].map(peak);
    assert!(peaks.is_sorted_by(|more, less| more > less), "{peaks:?}");
    assert_eq!(peak("100000"), peaks[0], "a block has at most 4,194,304 scores");

    let (fit, _) = ask(&place, &[&tiny("fit")[..], &["--budget", "1GiB", "--frontier"]].concat());
    let plans = fit["frontier"].as_array().unwrap();
    let block = |plan: &Value| plan["candidate"]["attention_block"].as_u64();
    assert_eq!(block(plans.last().unwrap()), None, "with plenty the block is as it was");
    let mut before: Option<(u64, f64)> = None;
    for plan in plans {
        let (peak, seconds) = (number(plan, "peak"), plan["seconds"].as_f64().unwrap());
        assert!(before.is_none_or(|(less, slower)| less < peak && slower > seconds), "{plan}");
        assert_eq!(plan["class"].as_str(), Some("lossless"));
        before = Some((peak, seconds));
    }
    let blocks: Vec<u64> = plans
        .iter()
        .filter(|plan| plan["candidate"]["recompute"] == plans.last().unwrap()["candidate"]["recompute"])
        .map(|plan| block(plan).unwrap_or(u64::MAX))
        .collect();
    assert!(blocks.len() > 2 && blocks.is_sorted(), "the largest block that fits: {blocks:?}");

    let tight = plans.iter().rev().find(|plan| block(plan).is_some()).unwrap();
    let budget = bytes(number(tight, "peak"));
    let ended = place.run(&[&tiny("fit")[..], &["--budget", &budget, "--out", "fitted.yaml"]].concat());
    let line = format!("autoencoder.training.attention_block = {}", block(tight).unwrap());
    assert!(ended.code == Some(0) && ended.stdout.contains(&line), "{line} is not in\n{}", ended.stdout);
    let (plan, code) = ask(&place, &["plan", "fitted.yaml", "--budget", &budget]);
    assert_eq!((code, plan["attention_block"].as_u64()), (0, block(tight)));
    let advice = place.run(&[&tiny("plan")[..], &["--explain"]].concat()).stdout;
    assert!(advice.contains("- lossless: autoencoder.training.attention_block = 16 saves "), "{advice}");
    let broken = ["--set", "autoencoder.training.attention_block=0"];
    reject(&place, &[&["plan", "tiny.yaml"], &broken[..]].concat(), &["attention_block", "at least 1"]);
}

#[test]
fn a_fit_is_confirmed_by_plan_and_by_measure() {
    let place = Place::new();
    let two = ["--set", "autoencoder.training.batch_size=2"]; // a search takes a while, and goes through every split
    let ask_alone = |command, more: &[&str]| ask_tiny(&place, command, &[&ALONE[..], &two, more].concat());
    let configured = number(&ask_alone("plan", &[]).0, "needed_bytes");
    let plans = ask_alone("fit", &["--budget", "1GiB", "--frontier"]).0["frontier"].as_array().unwrap().clone();
    let [smallest, fastest] = [plans.first(), plans.last()].map(|plan| number(plan.unwrap(), "peak"));
    assert!(smallest < fastest && smallest < configured, "{smallest}, {fastest}, {configured}");
    let mut before = f64::INFINITY;
    for budget in [smallest, fastest - 1, configured] {
        let budget = bytes(budget);
        let (fit, code) = ask_alone("fit", &["--budget", &budget, "--out", "fitted.yaml", "--force"]);
        let seconds = fit["plan"]["seconds"].as_f64().unwrap();
        assert!(code == 0 && seconds <= before, "{seconds} s in {budget}, {before} s in less");
        assert!(number(&fit["plan"], "peak") <= bytes_of(&budget), "{budget}: {fit}");
        let fits = |plan: &&Value| number(plan, "peak") <= bytes_of(&budget);
        let fastest = plans.iter().filter(fits).map(|plan| plan["seconds"].as_f64().unwrap()).min_by(f64::total_cmp);
        assert_eq!(Some(seconds), fastest, "the fastest that fits into {budget}");
        before = seconds;
        let candidate = &fit["plan"]["candidate"];
        assert_eq!(number(candidate, "micro_batch") * number(candidate, "accumulation"), 2, "the step stays the same");

        let (plan, code) = ask(&place, &["plan", "fitted.yaml", "--budget", &budget]);
        assert_eq!((code, &plan["fits"]), (0, &Value::Bool(true)), "{plan}");
        let (measured, _) = ask(&place, &["measure", "fitted.yaml", "--steps", "1"]);
        let step = measured["phases"].as_array().unwrap().iter().find(|row| row["phase"] == "step").unwrap();
        assert!(bytes_of(&budget) >= number(step, "measured_bytes"), "{budget}: {step}");
    }
    let printed =
        run(&place, "fit", &[&ALONE[..], &two, &["--budget", &bytes(smallest), "--out", "other.yaml"]].concat()).stdout;
    let streamed =
        ["training.stream = [", "training.slab_planes = ", "training.stream_keep = ", "training.cached_percent = "];
    let parts = ["fits: ", "(lossless)", "training.recompute = [", "slower than with ", "written to other.yaml"];
    for part in parts.into_iter().chain(streamed) {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    let planned = place.run(&["plan", "other.yaml"]).stdout;
    assert!(planned.contains("in slabs of "), "{planned}");
    let other = place.text("other.yaml");
    assert!(other.starts_with("# tiny.yaml, fitted into ") && other.contains("name: best"), "of any machine: {other}");
}

/// Weights that are most of a step, four items to it.
const HEAVY: [&str; 4] = ["--set", "autoencoder.num_channels=[32,64]", "--set", "autoencoder.training.batch_size=4"];

#[test]
fn a_fit_of_several_ranks_splits_states_and_keeps_the_batch() {
    let place = Place::new();
    let ask_heavy = |command, more: &[&str]| ask(&place, &[&[command, "tiny.yaml"], &HEAVY[..], more].concat());
    let (fit, code) = ask_heavy("fit", &["--ranks", "4", "--budget", "1GiB", "--out", "fitted.yaml"]);
    assert_eq!(
        (code, number(&fit["plan"]["candidate"], "micro_batch")),
        (0, 1),
        "of four items each rank has one: {fit}"
    );
    assert_eq!(fit["exchange"]["shards_optimizer"], Value::Bool(true), "which costs nothing");
    let text = place.text("fitted.yaml");
    for part in ["gradient_accumulation_steps: 4", "batch_size: 1", "shard_optimizer: true"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }

    let optimizer = |more: &[&str]| {
        let (plan, _) = ask(&place, &[&["plan", "fitted.yaml", "--ranks", "4"], more].concat());
        let rows = plan["causes"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row.to_string().contains("optimizer")).unwrap_or_else(|| panic!("{rows:?}"));
        (number(row, "bytes"), number(&plan["exchange"], "gradient_bytes"), plan)
    };
    let (part, gradients, plan) = optimizer(&[]);
    let (whole, ..) = optimizer(&["--set", "autoencoder.training.shard_optimizer=false"]);
    assert!(whole.abs_diff(2 * gradients) < whole / 20, "the moments of Adam: {whole} of {gradients}");
    let largest = 2 * 4 * 64 * 64 * 27; // of a convolution's weights
    assert!(part > whole / 5 && 4 * part <= whole + 3 * largest, "{part} of {whole}");
    assert_eq!(number(&plan["exchange"], "sent_bytes"), 2 * gradients * 3 / 4, "as many bytes as without");
    reject(&place, &["fit", "tiny.yaml", "--budget", "1GiB", "--ranks", "3"], &["--ranks", "items", "multiple"]);
}

/// The buffers of the sums count in what fits and in what is said of the rest.
#[test]
fn what_several_ranks_lack_is_more_than_they_have() {
    let place = Place::new();
    let small = [HEAVY[0], HEAVY[1], ALONE[0], ALONE[1], "--set", "autoencoder.training.batch_size=2"];
    let ask = |budget: &str| {
        ask(&place, &[&["fit", "tiny.yaml"], &small[..], &["--ranks", "2", "--budget", budget]].concat())
    };
    let smallest = number(&ask("1GiB").0["frontier"][0], "peak"); // without buffers
    let (rejected, code) = ask(&bytes(smallest));
    let needed = number(&rejected, "smallest_bytes");
    assert!(code == 1 && needed > smallest, "{smallest} is too little: {rejected}");
    assert_eq!(ask(&bytes(needed - 1)).1, 1);
    assert_eq!(ask(&bytes(needed)).1, 0, "as much as it was said to need");
}

fn bytes_of(text: &str) -> u64 {
    text.parse::<ByteSize>().unwrap().as_u64()
}

#[test]
fn an_infeasible_budget_says_the_smallest_and_what_lowers_it() {
    let place = Place::new();
    let one_item = [&["fit", "tiny.yaml"], &SETTINGS[..4], &ALONE, &ONE_LEVEL].concat(); // quickly searched
    let arguments = ["--budget", "1KiB", "--out", "fitted.yaml"];
    let Ended { code, stdout, .. } = place.run(&[&one_item[..], &arguments].concat());
    assert_eq!(code, Some(1));
    let goes_down = |class: &str| {
        let named = format!("--allow {class} goes down to ");
        let size = stdout.split(&named).nth(1).and_then(|rest| rest.split(':').next());
        bytes_of(size.unwrap_or_else(|| panic!("{named} is not in\n{stdout}")))
    };
    assert!(
        stdout.contains("does not fit: ") && stdout.contains("of the smallest plan with lossless changes"),
        "{stdout}"
    );
    assert!(goes_down("model") < goes_down("numerics"), "{stdout}");
    assert!(!place.path("fitted.yaml").exists());

    let tight = bytes(goes_down("model") + (1 << 17)); // more than was rounded
    let (answer, code) = ask(&place, &[&one_item[..], &["--budget", &tight, "--allow", "numerics"]].concat());
    assert_eq!((code, &answer["plan"]), (1, &Value::Null), "what needs another model is not done without leave");
    let lower = answer["lower"].as_array().unwrap();
    assert_eq!((lower.len(), lower[0]["allow"].as_str()), (1, Some("model")), "{answer}");
    assert!(number(&lower[0], "smallest_bytes") < number(&answer, "smallest_bytes"), "{answer}");
    let printed = place.run(&[&one_item[..], &["--budget", &tight]].concat()).stdout;
    assert!(
        printed.contains("--allow numerics goes down to ") && printed.contains("--allow model fits with "),
        "{printed}"
    );
    let (fit, code) = ask(&place, &[&one_item[..], &["--budget", &tight, "--allow", "model"]].concat());
    assert_eq!((code, fit["plan"]["class"].as_str()), (0, Some("model")));
}

#[test]
fn a_fit_names_every_key_that_it_changes() {
    let place = Place::new();
    let checkpointed = ["--set", "autoencoder.training.use_gradient_checkpointing=true"];
    let printed = |more: &[&str]| run(&place, "fit", &[more, &["--budget", "1GiB"]].concat()).stdout;
    let key = "autoencoder.training.use_gradient_checkpointing = false";
    assert!(printed(&checkpointed).contains(key) && !printed(&[]).contains(key), "it wins over `recompute`");
}

/// The largest batch within the share: one item more is beyond it, and the learning rate follows.
#[test]
fn a_batch_fills_a_share_of_the_memory() {
    let place = Place::new();
    let fill = |more: &[&str]| ask_tiny(&place, "fit", &[&["--budget", "40MiB"], more].concat());
    let (filled, code) = fill(&["--utilisation", "0.5..0.9", "--out", "filled.yaml"]);
    assert_eq!(code, 0);
    let (batch, needed) = (number(&filled, "batch_size"), number(&filled, "needed_bytes"));
    let share = |needed: u64| needed as f64 / (40 << 20) as f64;
    assert!(share(needed) > 0.5 && share(needed) <= 0.9, "{filled}");
    let (fewer, _) = fill(&["--utilisation", &format!("0..{}", share(needed) - 1e-6)]);
    assert_eq!(number(&fewer, "batch_size"), batch - 1, "less memory holds one item less");
    let plan = ask(&place, &["plan", "filled.yaml", "--budget", "40MiB"]).0;
    assert!(number(&plan, "micro_batch") == batch && number(&plan, "step_peak_bytes") <= needed, "{plan}");
    assert!(place.text("filled.yaml").contains("name: best"), "of any machine");
    let rate = 0.01 * batch as f64 / 4.0;
    assert!(batch != 4 && (filled["learning_rate"].as_f64().unwrap() - rate).abs() < 1e-9, "{filled}");
    let (_, code) = fill(&["--utilisation", "0.001..0.01"]);
    assert_ne!(code, 0, "not even one item");
    reject(&place, &["fit", "tiny.yaml", "--budget", "1GiB", "--utilisation", "0.8..0.6"], &["0.6..0.8"]);
}

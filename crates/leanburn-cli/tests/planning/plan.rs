//! `leanburn plan`.

use std::fs;

use bytesize::ByteSize;
use serde_json::Value;

use super::{ALONE, ONE_LEVEL, SETTINGS, ask, ask_tiny, bytes, number, reject, run};
use crate::common::{Ended, Place};

#[track_caller]
fn sum_of_bytes(rows: &Value) -> u64 {
    rows.as_array().unwrap().iter().map(|row| number(row, "bytes")).sum()
}

#[test]
fn a_plan_is_a_fit_check_and_tables() {
    let place = Place::new();
    for (budget, code, fit_check) in [("1GiB", 0, "fits: needs "), ("1MiB", 1, "does not fit: needs ")] {
        let Ended { code: found, stdout, stderr } = run(&place, "plan", &["--budget", budget]);
        assert_eq!(found, Some(code), "{stderr}");
        assert!(
            stderr.lines().all(|line| line.starts_with("traced in ")),
            "a plan that does not fit is no error: {stderr}"
        );
        for part in ["32x32x32, batch 4 x 1", fit_check, "peak in ", "at the peak", "by segment", "decoder.", "weights"]
        {
            assert!(stdout.contains(part), "{part} is not in\n{stdout}");
        }
        assert!(stdout.contains(if code == 0 { " to spare" } else { " too much" }), "{stdout}");
    }
    let open = run(&place, "plan", &[]);
    assert!(open.code == Some(0) && open.stdout.contains("give --budget or --gpu"), "{open:?}");
}

/// A size is enough for a plan; only a run reads volumes.
#[test]
fn a_plan_needs_no_data() {
    let place = Place::new();
    fs::write(
        place.path("sized.yaml"),
        "data: {voxel_size: 32}\nautoencoder: {num_channels: [8, 16], norm_num_groups: 8}\n",
    )
    .unwrap();
    let (plan, code) = ask(&place, &["plan", "sized.yaml"]);
    assert_eq!((code, number(&plan, "needed_bytes") > 1 << 20), (0, true), "{plan:#}");
    let says = ["data.paths", "files or folders", "none", "phantom"];
    reject(&place, &["train", "sized.yaml", "--out", "run"], &says);
}

#[test]
fn a_plan_for_machines_adds_up() {
    let place = Place::new();
    let (open, code) = ask_tiny(&place, "plan", &[]);
    assert_eq!((code, &open["fits"]), (0, &Value::Null));
    let needed = number(&open, "needed_bytes");
    assert_eq!(sum_of_bytes(&open["causes"]), needed);
    assert!(sum_of_bytes(&open["segments"]) < needed && number(&open, "step_peak_bytes") <= needed);
    let peak = &open["peak"];
    assert!(number(peak, "index") < number(peak, "operations") && peak["operation"].is_string(), "{peak}");
    assert_eq!((number(&open, "micro_batch"), number(&open, "accumulation")), (4, 1));
    for (budget, fits) in [(needed, true), (needed - 1, false)] {
        let (plan, code) = ask_tiny(&place, "plan", &["--budget", &bytes(budget)]);
        assert_eq!((&plan["fits"], code), (&Value::Bool(fits), i32::from(!fits)), "budget {budget} of {needed}");
    }
    let (half, _) = ask_tiny(&place, "plan", &["--budget", &bytes(2 * needed), "--fraction", "0.5"]);
    assert_eq!(number(&half, "budget_bytes"), needed);
}

#[test]
fn data_in_memory_is_a_line_of_a_plan_and_part_of_a_budget() {
    let place = Place::new();
    fn row(rows: &Value, name: &str) -> u64 {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
        row.map_or(0, |row| number(row, "bytes"))
    }
    let (cached, read) = ("volumes in memory (data.cache_rate)", "volumes that are read again (data.cache_rate)");
    let volume = 4 * 32 * 32 * 32;
    let plan = |more: &[&str]| ask_tiny(&place, "plan", more).0;
    let few = plan(&[]);
    assert_eq!([cached, read].map(|name| row(&few["causes"], name)), [2 * volume, 0]);
    assert_eq!(row(&few["causes"], "batches that wait (data.prefetch)"), 2 * 4 * volume);
    let again = plan(&["--set", "data.cache_rate=0"]);
    assert_eq!([cached, read].map(|name| row(&again["causes"], name)), [0, volume], "a phantom is prepared in place");
    let many = plan(&["--set", "data.phantom.count=42"]);
    assert_eq!(number(&many, "needed_bytes"), number(&few, "needed_bytes") + 40 * volume);
    let smallest = |more: &[&str]| {
        let (fit, _) = ask_tiny(
            &place,
            "fit",
            &[&["--set", "autoencoder.training.batch_size=1", "--budget", "1GiB"], more].concat(),
        );
        number(&fit["frontier"][0], "peak")
    };
    assert_eq!(smallest(&["--set", "data.phantom.count=42"]), smallest(&[]) + 40 * volume);
    let printed = run(&place, "fit", &["--budget", "1GiB"]).stdout;
    assert!(printed.contains(&format!("of which 256.0 KiB {cached}, ")), "{printed}");
    assert_eq!(row(&plan(&["--gpu", "rtx-4090"])["causes"], cached), 0, "a card holds none");
    let gone = plan(&["--set", "data.phantom=null", "--set", "data.paths=[gone.nii]"]);
    assert!(gone["warnings"].to_string().contains("is not counted: gone.nii"), "{gone}");

    let fields =
        "sequence: {advection: {steps: 50, shape: [9, 10]}, input_days: 3, use_channels: [1, 0], downsample: 2}";
    fs::write(place.path("fields.yaml"), format!("forecaster: {{}}\n{fields}\n")).unwrap();
    let (plan, _) = ask(&place, &["plan", "fields.yaml"]);
    assert_eq!(row(&plan["causes"], "fields in memory (sequence.downsample)"), 4 * 50 * 2 * 5 * 5);
}

#[test]
fn a_step_of_little_but_attention_has_a_warning() {
    let place = Place::new();
    let warnings = |levels: &str, more: &[&str]| {
        let levels = format!("autoencoder.attention_levels={levels}");
        let large = ["--set", "data.patch_size=128", "--set", "data.phantom.shape=[128,128,128]", "--set", &levels];
        ask_tiny(&place, "plan", &[&large[..], more].concat()).0["warnings"].to_string()
    };
    for device in [&[][..], &["--gpu", "rtx-4090"]] {
        assert!(warnings("[false,true]", device).contains("attention takes"), "{}", warnings("[false,true]", device));
        assert!(!warnings("[false,false]", device).contains("attention"));
    }
}

#[test]
fn a_card_has_its_memory_as_the_budget() {
    let place = Place::new();
    let (plan, code) = ask_tiny(&place, "plan", &["--gpu", "rtx-4090"]);
    assert_eq!((code, plan["device"].as_str(), &plan["fits"]), (0, Some("rtx-4090"), &Value::Bool(true)));
    assert_eq!(sum_of_bytes(&plan["causes"]), number(&plan, "needed_bytes"));
    let card = leanburn_plan::catalogue::Device::find("rtx-4090").unwrap();
    assert_eq!(number(&plan, "budget_bytes"), card.memory_bytes.get());
    assert!(
        number(&plan, "reserved_bytes") > number(&plan, "step_peak_bytes"),
        "pages are as large as the largest tensor"
    );
    assert!(
        number(&plan, "needed_bytes") > number(&plan, "reserved_bytes") + card.context_bytes.get(),
        "gaps are needed too"
    );
    assert!(ask_tiny(&place, "plan", &[]).0["reserved_bytes"].is_null(), "the CPU has no pool");
    let context = plan["causes"].as_array().unwrap().iter().find(|row| row["name"] == "context of the driver");
    assert_eq!(context.map(|row| number(row, "bytes")), Some(card.context_bytes.get()));
}

#[test]
fn without_a_named_card_the_plan_is_for_the_device_of_the_configuration() {
    let place = Place::new();
    let peak = |more: &[&str]| {
        let (plan, _) = ask_tiny(&place, "plan", more);
        (plan["device"].as_str().unwrap().to_string(), number(&plan, "step_peak_bytes"))
    };
    let (cpu, on_cpu) = peak(&[]);
    let (card, on_card) = peak(&["--gpu", "rtx-4090"]);
    assert_eq!((cpu.as_str(), card.as_str()), ("flex", "rtx-4090"));
    assert_ne!(on_cpu, on_card, "a card runs compositions");
    assert_eq!(peak(&["--set", "device.name=cpu"]), (cpu, on_cpu));
    for name in ["vulkan", "wgpu:1", "cuda", "metal", "rocm"] {
        let set = format!("device.name={name}");
        assert_eq!(peak(&["--set", &set]), (name.to_string(), on_card), "this build need not have it");
        assert_eq!(peak(&["--set", &set, "--gpu", "rtx-4090"]), (card.clone(), on_card));
    }
    let rocm = ["--set", "device.name=rocm"];
    let warning = "device.name is rocm, a graphics card that was not named: ";
    let printed = run(&place, "plan", &rocm).stdout;
    for part in [warning, "its memory is not known", "--gpu rtx-4090", "on a graphics card (rocm)"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    let within = [&ALONE[..], &ONE_LEVEL, &["--budget", "1GiB"]].concat();
    for command in ["plan", "fit"] {
        let printed = run(&place, command, &[&rocm[..], &within].concat()).stdout;
        assert!(printed.contains(warning) && !printed.contains("its memory"), "{printed}");
        assert!(!run(&place, command, &within).stdout.contains("device.name"), "{command}");
    }
    let (fit, _) = ask_tiny(&place, "fit", &[&rocm[..], &within].concat());
    assert_eq!(fit["device"].as_str(), Some("rocm"));
    reject(
        &place,
        &[&["plan", "tiny.yaml"], &SETTINGS[..], &["--set", "device.name=vulcan"]].concat(),
        &["vulcan", "did you mean `vulkan`"],
    );
}

#[test]
fn what_is_recomputed_is_not_kept() {
    let place = Place::new();
    let peak = |more: &[&str]| number(&ask_tiny(&place, "plan", more).0, "step_peak_bytes");
    let all = peak(&["--set", "autoencoder.training.use_gradient_checkpointing=true"]);
    let part = peak(&["--set", "autoencoder.training.recompute=[decoder.*]"]);
    let none = peak(&[]);
    assert!(all < part && part < none, "{all}, {part}, {none}");
}

#[test]
fn words_name_the_largest_cause_and_what_lowers_it() {
    let place = Place::new();
    let printed = run(&place, "plan", &["--explain"]).stdout;
    for part in ["The step holds the most while ", "- lossless: ", "- numerics: ", "- model: ", "leanburn fit"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    let (plan, _) = ask_tiny(&place, "plan", &[]);
    let causes = plan["causes"].as_array().unwrap();
    let largest = causes.iter().max_by_key(|row| number(row, "bytes")).unwrap()["name"].as_str().unwrap();
    assert!(printed.contains(&format!(" % of that is {largest}.")), "{largest} is not named in\n{printed}");
    let (half, _) = ask_tiny(&place, "plan", &["--set", "device.precision=bf16"]);
    let saved = ByteSize::b(number(&plan, "step_peak_bytes") - number(&half, "step_peak_bytes"));
    assert!(printed.contains(&format!("device.precision = bf16 saves {saved} ")), "{saved} is not in\n{printed}");
    let advice = ask_tiny(&place, "plan", &["--explain"]).0["advice"].clone();
    assert!(advice.to_string().contains(&format!("device.precision = bf16 saves {saved} ")), "{advice}");
    let classes = ["- lossless: ", "- numerics: ", "- model: "].map(|class| printed.find(class).unwrap());
    assert!(classes.is_sorted(), "mildest first:\n{printed}");
}

#[test]
fn errors_in_arguments_are_reported_at_once() {
    let place = Place::new();
    reject(
        &place,
        &["plan", "tiny.yaml", "--gpu", "rtx-4091", "--budget", "1GiB", "--fraction", "2"],
        &["3 errors", "--gpu", "did you mean rtx-4090", "--budget", "contradicts --gpu", "--fraction", "0.7", "--help"],
    );
    reject(
        &place,
        &["plan", "tiny.yaml", "--fraction", "0.7"],
        &["--fraction", "a share of nothing", "--budget or --gpu"],
    );
    reject(&place, &["plan", "tiny.yaml", "--budget", "0GiB"], &["--budget", "is nothing", "24GiB"]);
    reject(&place, &["plan", "tiny.yaml", "--budget", "much"], &["much", "--budget"]);
    reject(&place, &["plan"], &["CONFIG", "is missing", "leanburn recipes"]);
    reject(&place, &["fit", "tiny.yaml"], &["--budget", "is missing", "rtx-4090"]);
    reject(&place, &["measure", "tiny.yaml", "--steps", "0"], &["--steps", "1..=1000"]);
    #[cfg(not(feature = "vulkan"))]
    reject(
        &place,
        &["measure", "tiny.yaml", "--set", "device.name=vulkan"],
        &["device `vulkan`", "--features vulkan", "--device flex"],
    );
}

#[test]
fn errors_in_the_configuration_and_the_arguments_are_reported_at_once() {
    let place = Place::new();
    let settings = ["--set", "autoencoder.norm_num_groups=3", "--set", "data.patch_size=9"];
    let arguments = ["--gpu", "rtx-4091", "--fraction", "2"];
    for command in ["plan", "fit"] {
        reject(
            &place,
            &[&[command, "tiny.yaml"], &settings[..], &arguments[..]].concat(),
            &[
                "norm_num_groups",
                "[4, 8]",
                "set `norm_num_groups` to 4",
                "data.patch_size",
                "multiples of 2",
                "use [10, 10, 10]",
                "--gpu",
                "rtx-4090",
                "--fraction",
            ],
        );
    }
    let odd = ["--set", "data.phantom.shape=[9,16,16]", "--set", "data.patch_size=null"];
    for command in ["plan", "measure"] {
        reject(
            &place,
            &[&[command, "tiny.yaml"], &odd[..]].concat(),
            &["[9, 16, 16]", "multiples of [2, 2, 2]", "[10, 16, 16]", "data.voxel_size"],
        );
    }
}

#[test]
fn a_forecaster_that_is_not_ours_is_named_as_not_modelled() {
    let place = Place::new();
    fs::write(place.path("forecaster.yaml"), "model_type: convgru\nbatch_size: 8\ninput_days: 14\n").unwrap();
    for command in [&["plan", "forecaster.yaml"][..], &["fit", "forecaster.yaml", "--budget", "1GiB"]] {
        reject(
            &place,
            command,
            &[
                "forecaster.yaml",
                "a forecaster (`convgru`)",
                "not modelled yet",
                "leanburn calc --config forecaster.yaml",
            ],
        );
    }
}

#[test]
fn a_file_of_diffsr_is_planned_as_it_is() {
    let place = Place::new();
    let text = "model: {name: EDSR, hidden_channels: 8, n_res_blocks: 1, upscale_factor: 2, in_channels: 1, out_channels: 1}\n\
                data: {name: NavierStokes2D, data_path: flows.mat, shape: [32, 32], sample_factor: 2, train_batchsize: 2}\n";
    fs::write(place.path("edsr.yaml"), text).unwrap();
    let (plan, code) = ask(&place, &["plan", "edsr.yaml"]);
    assert_eq!((code, number(&plan, "micro_batch")), (0, 2), "{plan:#}");
}

#[test]
fn the_page_is_one_file_that_names_the_peak() {
    let place = Place::new();
    let before = place.contents().len();
    let peak = ask_tiny(&place, "plan", &["--page", "plan.html", "--trace", "plan.json"]).0["peak"].clone();
    assert_eq!(place.contents().len(), before + 2, "two files and nothing else");
    let page = place.text("plan.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    for outside in ["http://", "https://", "src=", "<link", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for name in ["operation", "segment"] {
        assert!(page.contains(&format!("<dd>{}</dd>", peak[name].as_str().unwrap())), "{name} of {peak}");
    }
    let trace: Value = serde_json::from_str(&place.text("plan.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let operations = events.iter().filter(|event| event["ph"] == "X").count() as u64;
    assert!(operations >= number(&peak, "operations"), "{operations} events");
    let ended = run(&place, "plan", &["--page", "none/plan.html"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("none/plan.html"), "{ended:?}");
}

/// A volume of 64 MiB of a decoder's finest level, in slabs: planning computes nothing.
#[test]
fn a_volume_on_two_processes_takes_less_of_each() {
    let place = Place::new();
    let text = "data: {phantom: {count: 2, shape: [128, 64, 64]}, patch_size: [128, 64, 64], cache_rate: 0}\n\
                autoencoder:\n  num_channels: [32, 32]\n  num_res_blocks: 1\n  training:\n    volume_ranks: 2\n    \
                use_gradient_checkpointing: true\n    stream: [encoder.level_0, decoder.level_0]\n\
                device: {name: flex}\n";
    fs::write(place.path("large.yaml"), text).unwrap();
    let plan = |more: &[&str]| ask(&place, &[&["plan", "large.yaml"], more].concat()).0;
    let [one, two] = [plan(&[]), plan(&["--ranks", "2"])];
    let share = number(&two, "step_peak_bytes") as f64 / number(&one, "step_peak_bytes") as f64;
    // half of the finest level; the volume in front of it and its gradient are there whole
    assert!((0.5..0.7).contains(&share), "{share} of {}", number(&one, "step_peak_bytes"));
    let coarse = 4 * 32 * 64 * 32 * 32;
    let sent = number(&two["exchange"], "plane_bytes");
    assert!(
        (coarse..3 * coarse).contains(&sent),
        "halves of the coarse volumes and their gradients: {sent} of {coarse}"
    );
    reject(
        &place,
        &["plan", "large.yaml", "--ranks", "3"],
        &["--ranks", "held by 2 processes", "multiple of volume_ranks"],
    );
    let with = |setting: &'static str| ["plan", "large.yaml", "--set", setting];
    reject(&place, &with("autoencoder.training.discriminator={}"), &["discriminator", "volume_ranks"]);
    reject(&place, &["fit", "large.yaml", "--budget", "1GiB"], &["large.yaml", "2 processes", "remove volume_ranks"]);
}

/// A T4 has no units for bfloat16; Burn has none on Vulkan.
#[test]
fn half_precision_is_one_that_the_device_computes_in() {
    let place = Place::new();
    let mut cases = vec![(vec![], "bf16"), (vec!["--gpu", "rtx-4090"], "bf16"), (vec!["--gpu", "t4"], "f16")];
    if cfg!(not(feature = "vulkan")) {
        cases.push((vec!["--set", "device.name=vulkan"], "f16"));
        cases.push((vec!["--set", "device.name=vulkan", "--gpu", "rtx-4090"], "f16"));
    }
    for (arguments, half) in cases {
        let printed = run(&place, "plan", &[&["--explain"][..], &arguments].concat()).stdout;
        assert!(printed.contains(&format!("- numerics: device.precision = {half} saves")), "{arguments:?}: {printed}");
    }
}

#[test]
fn a_table_rejects_arguments_that_it_would_ignore() {
    let place = Place::new();
    let cards = ["plan", "--gpu", "all"];
    let more =
        ["--compare", "--budget=1GiB", "--fraction=0.5", "--ranks=4", "--json", "--explain", "--page=p", "--trace=t"];
    let says =
        ["8 errors", "--compare", "--budget", "--fraction", "--ranks", "--json", "--explain", "--page", "--trace"];
    reject(&place, &[&cards[..], &more].concat(), &[&says[..], &["--gpu all"]].concat());
    let sizes = ["plan", "--compare", "--set=seed=1", "--ranks=4", "--explain", "--page=p", "--trace=t"];
    let says = ["5 errors", "--set", "--ranks", "--explain", "--page", "--trace", "the table of --compare"];
    reject(&place, &sizes, &says);
}

#[test]
fn a_page_says_what_it_draws_and_leaves_out() {
    let place = Place::new();
    let page = |more: &[&str]| {
        assert_eq!(run(&place, "plan", &[more, &["--page", "plan.html", "--force"]].concat()).code, Some(0));
        place.text("plan.html")
    };
    let (drawn, pool) = ("2 of the 5 micro-batches are drawn", "gaps in the pool&#39;s pages");
    let plain = page(&[]);
    assert!(!plain.contains("are drawn") && !plain.contains(pool));
    let accumulated = page(&["--set", "autoencoder.training.gradient_accumulation_steps=5"]);
    assert!(accumulated.contains(drawn) && !accumulated.contains(pool), "{accumulated}");
    let unknown = page(&["--set", "device.name=rocm"]);
    assert!(unknown.contains(pool) && unknown.contains("a graphics card that was not named"));
}

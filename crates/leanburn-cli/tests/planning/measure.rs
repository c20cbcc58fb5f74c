//! `leanburn measure`, and what training keeps of its plan.

use serde_json::Value;

use super::{SETTINGS, ask_tiny, number, run};
use crate::common::Place;

#[test]
fn the_plan_is_measured_phase_by_phase() {
    let place = Place::new();
    let (answer, code) = ask_tiny(&place, "measure", &["--steps", "2"]);
    let rows = answer["phases"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["phase"].as_str().unwrap()).collect();
    assert_eq!((code, names), (0, vec!["forward", "backward", "update", "step"]));
    assert!(answer["step_seconds"].as_f64().unwrap() > 0.0);
    let step = &rows[3];
    let ratio = number(step, "predicted_bytes") as f64 / number(step, "measured_bytes") as f64;
    assert!((0.97..1.03).contains(&ratio), "{ratio}: {step}");
    let most = rows[..3].iter().map(|row| number(row, "measured_bytes")).max();
    assert_eq!(most, Some(number(step, "measured_bytes")), "a step's peak is that of one of its phases");
    let printed = run(&place, "measure", &["--steps", "1"]).stdout;
    assert!(
        ["predicted", "measured", "backward", "median of 1"].iter().all(|part| printed.contains(part)),
        "{printed}"
    );
}

#[test]
fn the_ladder_has_a_row_a_saver() {
    let place = Place::new();
    let printed = run(&place, "measure", &["--ladder", "--steps", "1"]).stdout;
    let savers = ["nothing but lean operations", "accumulation, 4 x 1", "recomputation", "streamed", "bf16"];
    let places = savers.map(|saver| printed.find(saver).unwrap_or_else(|| panic!("no {saver} in\n{printed}")));
    assert!(places.is_sorted() && printed.contains("predicted peak") && printed.contains("numerics"), "{printed}");
    assert!(printed.contains(" MiB") && !printed.contains(" GiB"), "of a size that can be read: {printed}");
    let (answer, _) = ask_tiny(&place, "measure", &["--ladder", "--steps", "1"]);
    let rows = answer["ladder"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["saver"].as_str().unwrap()).collect::<Vec<_>>(), savers);
    let measured: Vec<u64> = rows.iter().map(|row| number(row, "measured_bytes")).collect();
    assert!(measured.is_sorted_by(|more, less| more > less), "each saver saves: {measured:?}");
}

#[test]
fn training_keeps_its_plan_beside_what_it_took() {
    let place = Place::new();
    let printed = place.train("run", &SETTINGS);
    assert!(printed.contains("peak, measured") && printed.contains("peak, planned"), "{printed}");
    let plan: Value = serde_json::from_str(&place.text("run/plan.json")).unwrap();
    let [step, planned, measured] =
        ["planned_step_bytes", "planned_peak_bytes", "measured_peak_bytes"].map(|name| number(&plan, name));
    let ratio = planned as f64 / measured as f64;
    assert!(step <= planned && (0.9..1.1).contains(&ratio), "{ratio}: {plan}");
    let (alone, _) = ask_tiny(&place, "plan", &[]);
    assert_eq!(number(&alone, "step_peak_bytes"), step, "`plan` says the same");
}

//! Time and memory of steps, and the line of JSON that says them; the same as in `pytorch/measure.py`.

use clap::Args;
use leanburn::prelude::CountingAllocator;
use serde_json::{Value, json};

/// How long to measure, and on how much of the machine.
#[derive(Args)]
pub struct Timing {
    /// Steps to time, after some that are not.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
}

/// What a step took, held between forward and backward, and computed.
pub struct Step {
    pub seconds: f64,
    pub kept_bytes: u64,
    /// Values in which all programs have to agree.
    pub checks: Value,
}

/// Bytes of the heap in use.
pub fn live_bytes() -> u64 {
    CountingAllocator.current_usage() as u64
}

/// The most memory that was resident so far, in bytes; `None` where the system has no `/proc`.
fn resident_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Who computes: leanburn, or Burn's own layers.
pub fn program(burn: bool) -> String {
    let burns = format!("Burn {} Flex", burn_version());
    match burn {
        true => burns,
        false => format!("leanburn {}, {burns}", env!("CARGO_PKG_VERSION")),
    }
}

/// What this program was built of: versions, and whether it is optimised.
pub fn versions() -> Value {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    json!({
        "leanburn": env!("CARGO_PKG_VERSION"),
        "Burn": burn_version(),
        "Rust build": profile,
    })
}

/// The version of Burn that Cargo chose.
fn burn_version() -> &'static str {
    const LOCK: &str = include_str!("../../../Cargo.lock");
    let after = LOCK.split_once("name = \"burn\"\nversion = \"").map(|(_, after)| after);
    after.and_then(|after| after.split('"').next()).expect("Burn is locked")
}

/// What is measured: how it is called, and how many steps are looked at before the clock runs.
pub struct Line<'a> {
    pub mode: &'a str,
    pub dtype: &'a str,
    /// Burn's own layers.
    pub burn: bool,
    /// Steps that are not timed: their values are compared.
    pub untimed: usize,
}

/// Runs a step `untimed` times, and then as often as asked with clock and counter; prints the line.
pub fn report(line: Line<'_>, timing: &Timing, mut step: impl FnMut() -> Step) {
    let resident_before = resident_peak_bytes();
    let checks: Vec<Value> = (0..line.untimed).map(|_| step().checks).collect();
    let (mut step_peak, mut peak) = (0, 0);
    let steps: Vec<Step> = (0..timing.steps)
        .map(|_| {
            let live = live_bytes();
            CountingAllocator.reset_peak_usage();
            let taken = step();
            let of_step = CountingAllocator.peak_usage() as u64;
            (step_peak, peak) = (step_peak.max(of_step - live), peak.max(of_step));
            taken
        })
        .collect();
    let line = json!({
        "program": program(line.burn),
        "is_peer": false,
        "mode": line.mode,
        "dtype": line.dtype,
        "threads": rayon::current_num_threads(),
        "versions": versions(),
        "checks": checks,
        "step_seconds": median(steps.iter().map(|step| step.seconds)),
        "kept_bytes": median(steps.iter().map(|step| step.kept_bytes as f64)),
        "peak_bytes": peak,
        "step_peak_bytes": step_peak,
        "resident_before_bytes": resident_before,
        "resident_peak_bytes": resident_peak_bytes(),
    });
    println!("{line}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2] + values[(values.len() - 1) / 2]) / 2.0
}

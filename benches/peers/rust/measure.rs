//! Time and memory of steps, and the line of JSON that says them; the counterpart of `pytorch/measure.py`.

use clap::Args;
use leanburn::prelude::CountingAllocator;
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};
use serde_json::{Value, json};

/// How long to measure, and on how much of the machine.
#[derive(Args)]
pub struct Timing {
    /// Threads of the CPU.
    #[arg(long)]
    pub threads: usize,
    /// Steps to time, after one that is not.
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

/// Uses this many threads from here on.
pub fn use_threads(threads: usize) -> Result<(), ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(threads).build_global()
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
    match burn {
        true => "Burn 0.22.1 Flex".to_string(),
        false => format!("leanburn {}, Burn 0.22.1 Flex", env!("CARGO_PKG_VERSION")),
    }
}

/// Runs a step once, and then `count` times with clock and counter; prints the line.
pub fn report(mode: &str, program: String, count: u64, mut step: impl FnMut() -> Step) {
    let (before, resident_before) = (live_bytes(), resident_peak_bytes());
    let checks = step().checks;
    let mut step_peak = 0;
    let steps: Vec<Step> = (0..count)
        .map(|_| {
            let live = live_bytes();
            CountingAllocator.reset_peak_usage();
            let taken = step();
            step_peak = step_peak.max(CountingAllocator.peak_usage() as u64 - live);
            taken
        })
        .collect();
    let line = json!({
        "program": program,
        "mode": mode,
        "checks": checks,
        "step_seconds": median(steps.iter().map(|step| step.seconds)),
        "kept_bytes": median(steps.iter().map(|step| step.kept_bytes as f64)),
        "before_bytes": before,
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

//! What real steps take, on volumes of noise.

use std::time::Instant;

use leanburn_common::Bytes;
use leanburn_train::{CountingAllocator, PhasePeaks};

use crate::config::Config;
use crate::device::device_of;
use crate::error::Result;

/// What real steps took.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Measured {
    /// The most that was held, without what was held before.
    pub peak: Bytes,
    /// The same by part of the step.
    pub phases: PhasePeaks,
    /// Seconds of the median step.
    pub seconds: f64,
    /// What the pool of a GPU had taken from it.
    pub reserved: Option<Bytes>,
}

/// Takes real steps on noise of an extent, on the device of the configuration: one that makes the optimizers' states, `steps`
/// that are timed, and as many whose memory is watched.
///
/// # Errors
///
/// What keeps the models from being built and the steps from being taken.
pub fn measure(config: &Config, name: &str, extent: [usize; 3], steps: u64) -> Result<Measured> {
    let mut config = config.clone();
    config.start_at_once();
    let device = device_of(&config.device)?.autodiff();
    let pool = device.memory_pool_usage();
    let before = pool.map_or(CountingAllocator.current_usage() as u64, |pool| pool.bytes_in_use);
    let mut run = config.system.any().on_noise(&config.context(name), &device, extent)?;
    run.step()?; // makes the states of the optimizers
    let mut times = Vec::new();
    for _ in 0..steps {
        let began = Instant::now();
        run.step()?; // it reads its losses, and is over when they are there
        times.push(began.elapsed().as_secs_f64());
    }
    let reserved = device.memory_pool_usage().map(|pool| Bytes(pool.bytes_reserved));
    times.sort_by(f64::total_cmp);
    let seconds = times[times.len() / 2];
    let mut measured = Measured { peak: Bytes(0), phases: PhasePeaks::default(), seconds, reserved };
    run.watch_memory();
    for _ in 0..steps {
        let report = run.step()?;
        let peak = report.memory.map_or(0, |memory| memory.peak);
        measured.peak = measured.peak.max(Bytes(peak.saturating_sub(before)));
        let PhasePeaks { forward, backward, update } = report.phases;
        let largest = |one: u64, other: u64| one.max(other.saturating_sub(before));
        measured.phases.forward = largest(measured.phases.forward, forward);
        measured.phases.backward = largest(measured.phases.backward, backward);
        measured.phases.update = largest(measured.phases.update, update);
    }
    Ok(measured)
}

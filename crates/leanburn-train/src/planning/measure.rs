//! What real steps take, to hold a plan against.

use std::fmt;
use std::time::Instant;

use burn::tensor::Device;
use leanburn_common::Bytes;

use crate::error::TrainError;
use crate::memory::{CountingAllocator, PhasePeaks};
use crate::trainer::Trainer;
use crate::workload::Workload;

/// What real steps took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The most that a step held, without what was held before its trainer was built. 0 on a CPU whose program has not installed
    /// the [`CountingAllocator`].
    pub peak: Bytes,
    /// The same of each part of the step.
    pub phases: PhasePeaks,
    /// Seconds of the median step.
    pub seconds: f64,
    /// What the pool of a GPU has taken from it.
    pub reserved: Option<Bytes>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:.3} s a step", self.peak, self.seconds)
    }
}

/// Takes real steps of the trainer that `build` makes: one (of AMSGrad two) that makes the states of its optimizers, `steps` that are timed, and on a
/// GPU as many whose memory is sampled, which takes longer.
///
/// What the first step of a process allocates once for all, such as threads, counts as held by it.
///
/// # Errors
///
/// What `build` gives, and what a step does.
///
/// # Panics
///
/// Panics if `steps` is 0.
pub fn measure<W: Workload, E: From<TrainError>>(
    device: &Device,
    steps: u64,
    build: impl FnOnce(&Device) -> Result<Trainer<W>, E>,
    batch: impl Fn(&Device) -> W::Batch,
) -> Result<Measured, E> {
    assert!(steps > 0, "steps is 0; a measurement needs at least 1 step");
    let pool = || device.memory_pool_usage();
    let before = Bytes(pool().map_or(CountingAllocator.current_usage() as u64, |pool| pool.bytes_in_use));
    let mut trainer = build(device)?;
    let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(batch(device))));
    for _ in 0..trainer.steps_to_settle() {
        trainer.step(&mut batches)?;
    }
    let mut times = Vec::new();
    let mut measured = Measured::default();
    let largest = |one: Bytes, other: Bytes| one.max(other.saturating_sub(before));
    for step in 0..2 * steps {
        if step == steps {
            if pool().is_none() {
                break;
            }
            measured = Measured { reserved: pool().map(|pool| Bytes(pool.bytes_reserved)), ..Measured::default() };
            trainer.watch_memory();
        }
        let began = Instant::now();
        let report = trainer.step(&mut batches)?; // it reads its losses, and is over when they are there
        if step < steps {
            times.push(began.elapsed().as_secs_f64());
        }
        measured.peak = largest(measured.peak, report.memory.map_or(Bytes(0), |memory| memory.peak));
        let PhasePeaks { forward, backward, update } = report.phases;
        measured.phases.forward = largest(measured.phases.forward, forward);
        measured.phases.backward = largest(measured.phases.backward, backward);
        measured.phases.update = largest(measured.phases.update, update);
    }
    times.sort_by(f64::total_cmp);
    measured.seconds = times[times.len() / 2];
    Ok(measured)
}

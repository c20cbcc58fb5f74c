//! `leanburn measure`: what was planned beside what is.

use std::path::PathBuf;
use std::time::Instant;

use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_plan::{Candidate, Class, MemoryModel, Moment, Phase, Timeline};
use leanburn_train::{CountingAllocator, PhasePeaks, TrainError, Trainer};
use serde_json::json;

use super::plan::{extent_of_data, load};
use crate::console::print_line;
use crate::device::{device_of, half_precision};
use crate::error::Result;
use crate::planning::{ConfigSpace, memory_of};
use crate::progress::Progress;
use crate::workload;

/// `leanburn measure`
#[derive(Debug, Args)]
pub struct Measure {
    /// Configuration in YAML.
    config: PathBuf,
    /// Set a key of the configuration: --set autoencoder.training.batch_size=1
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    /// Steps to take after the first.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    steps: u64,
    /// Turn the memory savers on one after another, and measure each time.
    #[arg(long)]
    ladder: bool,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// What real steps took.
struct Measured {
    /// The most that was held, without what was held before.
    peak: u64,
    phases: PhasePeaks,
    /// Seconds of the median step.
    seconds: f64,
    /// What the pool of a GPU had taken from it, in bytes.
    reserved: Option<u64>,
}

impl Measure {
    pub(super) fn run(self) -> Result<()> {
        let source = self.config.display().to_string();
        let config = load(&self.config, &self.set)?;
        let (target, memory) = memory_of(&config.device.name)?;
        let half = half_precision(&config.device.name);
        let space = ConfigSpace::new(&config, &source, target, half, || extent_of_data(&config))?;
        let bench = Bench { space: &space, memory, source: &source, steps: self.steps };
        match self.ladder {
            true => self.climb(&bench),
            false => self.compare(&bench),
        }
    }

    fn compare(&self, bench: &Bench<'_>) -> Result<()> {
        let candidate = bench.space.configured();
        let timeline = bench.timeline(&candidate)?;
        let measured = bench.measure(&candidate)?;
        let of = |phase: Phase| {
            let moments = timeline.moments.iter().filter(|moment| moment.phase == phase);
            moments.map(|moment| bench.seen(moment)).max().unwrap_or(0)
        };
        let reserved = bench.memory.reserved(&timeline).zip(measured.reserved);
        let rows = [
            ("forward", of(Phase::Forward), measured.phases.forward),
            ("backward", of(Phase::Backward), measured.phases.backward),
            ("update", of(Phase::Update), measured.phases.update),
            ("step", bench.peak(&timeline), measured.peak),
        ];
        if self.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|(name, predicted, measured)| json!({ "phase": name, "predicted_bytes": predicted, "measured_bytes": measured }))
                .collect();
            return print_line(json!({ "config": bench.source, "step_seconds": measured.seconds, "phases": rows,
                "predicted_reserved_bytes": bench.memory.reserved(&timeline), "measured_reserved_bytes": measured.reserved }));
        }
        let mut table = right_aligned(&["peak", "predicted", "measured", "difference"]);
        let reserved = reserved.map(|(predicted, measured)| ("reserved by the pool", predicted, measured));
        for (name, predicted, measured) in rows.into_iter().chain(reserved) {
            let [planned, found] = [predicted, measured].map(|bytes| ByteSize::b(bytes).to_string());
            table.add_row([name.to_string(), planned, found, difference(predicted, measured)]);
        }
        print_line(table)?;
        print_line(format_args!("step  {:.2} s, median of {}", measured.seconds, self.steps))
    }

    fn climb(&self, bench: &Bench<'_>) -> Result<()> {
        let rungs = rungs(bench.space);
        let mut progress = (!self.json).then(|| Progress::new("measuring", rungs.len() as u64, 0));
        let mut rows = Vec::new();
        for (name, class, candidate) in rungs {
            let timeline = bench.timeline(&candidate)?;
            let measured = bench.measure(&candidate)?;
            if let Some(progress) = &mut progress {
                progress.step(|| name.clone());
            }
            rows.push((name, class, bench.peak(&timeline), bench.memory.reserved(&timeline), measured));
        }
        if let Some(progress) = &progress {
            progress.finish();
        }
        if self.json {
            let row = |(name, class, predicted, reserved, measured): &(String, Class, u64, Option<u64>, Measured)| {
                json!({ "saver": name, "class": class, "predicted_bytes": predicted, "measured_bytes": measured.peak,
                    "step_seconds": measured.seconds, "predicted_reserved_bytes": reserved,
                    "measured_reserved_bytes": measured.reserved })
            };
            return print_line(json!({ "config": bench.source, "ladder": rows.iter().map(row).collect::<Vec<_>>() }));
        }
        let mut table = right_aligned(&["saver", "peak", "change", "step", "change", "predicted peak", "class"]);
        let mut before: Option<(u64, f64)> = None;
        for (name, class, predicted, _, measured) in &rows {
            let change = |now: f64, before: Option<f64>| match before {
                Some(before) => format!("{:+.0} %", 100.0 * (now / before - 1.0)),
                None => String::new(),
            };
            table.add_row([
                name.clone(),
                format!("{:.3} GiB", gib(measured.peak)),
                change(measured.peak as f64, before.map(|(peak, _)| peak as f64)),
                format!("{:.2} s", measured.seconds),
                change(measured.seconds, before.map(|(_, seconds)| seconds)),
                format!("{:.3} GiB", gib(*predicted)),
                class.to_string(),
            ]);
            before = Some((measured.peak, measured.seconds));
        }
        print_line(table)
    }
}

/// A configuration on its device.
struct Bench<'a> {
    space: &'a ConfigSpace,
    memory: &'a dyn MemoryModel,
    source: &'a str,
    steps: u64,
}

impl Bench<'_> {
    fn timeline(&self, candidate: &Candidate) -> Result<Timeline> {
        Ok(self.space.record_with(candidate, candidate.accumulation)?.timeline(self.memory))
    }

    /// What a measurement can see of a moment: the heap is counted always, a pool is looked at between operations.
    fn seen(&self, moment: &Moment) -> u64 {
        match self.memory.reserved(&Timeline::default()) {
            Some(_) => moment.after,
            None => moment.during,
        }
    }

    fn peak(&self, timeline: &Timeline) -> u64 {
        timeline.moments.iter().map(|moment| self.seen(moment)).max().unwrap_or(0)
    }

    /// Takes real steps on random volumes.
    fn measure(&self, candidate: &Candidate) -> Result<Measured> {
        let mut config = self.space.config(candidate);
        config.begin_at_once();
        let device = device_of(&config.device)?.autodiff();
        let pool = device.memory_pool_usage();
        let before = pool.map_or(CountingAllocator.current_usage() as u64, |pool| pool.bytes_in_use);
        let run = workload::build(&config, self.source, &device)?;
        let mut trainer = Trainer::new(run, workload::trainer(&config), &device);
        let shape = self.space.batch_shape(candidate);
        let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(shape.random(&device))));
        trainer.step(&mut batches)?; // makes the states of the optimizers
        let mut times = Vec::new();
        for _ in 0..self.steps {
            let began = Instant::now();
            trainer.step(&mut batches)?; // it reads its losses, and is over when they are there
            times.push(began.elapsed().as_secs_f64());
        }
        let reserved = device.memory_pool_usage().map(|pool| pool.bytes_reserved);
        times.sort_by(f64::total_cmp);
        let seconds = times[times.len() / 2];
        let mut measured = Measured { peak: 0, phases: PhasePeaks::default(), seconds, reserved };
        trainer.watch_memory();
        for _ in 0..self.steps {
            let report = trainer.step(&mut batches)?;
            let peak = report.memory.map_or(0, |memory| memory.peak);
            measured.peak = measured.peak.max(peak.saturating_sub(before));
            let PhasePeaks { forward, backward, update } = report.phases;
            let largest = |one: u64, other: u64| one.max(other.saturating_sub(before));
            measured.phases.forward = largest(measured.phases.forward, forward);
            measured.phases.backward = largest(measured.phases.backward, backward);
            measured.phases.update = largest(measured.phases.update, update);
        }
        Ok(measured)
    }
}

/// The savers that a configuration can have, each on top of those before it.
fn rungs(space: &ConfigSpace) -> Vec<(String, Class, Candidate)> {
    let configured = space.configured();
    let whole = configured.micro_batch as u64 * configured.accumulation;
    let plain = Candidate { knobs: configured.knobs, ..Candidate::new(whole as usize, 1) };
    let mut rungs = vec![("nothing but lean operations".to_string(), Class::Lossless, plain.clone())];
    let mut last = plain;
    if whole > 1 {
        last = Candidate { micro_batch: 1, accumulation: whole, ..last };
        rungs.push((format!("accumulation, {whole} x 1"), Class::Lossless, last.clone()));
    }
    last.recompute = vec!["*".into()];
    rungs.push(("recomputation".into(), Class::Lossless, last.clone()));
    if let Some(half) = space.half_precision() {
        last.variant = half;
        rungs.push((space.config(&last).device.resolved_precision().to_string(), Class::Numerics, last));
    }
    rungs
}

fn right_aligned(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(headings);
    for column in 1..headings.len() {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

fn difference(predicted: u64, measured: u64) -> String {
    match measured {
        0 => String::new(),
        _ => format!("{:+.2} %", 100.0 * (predicted as f64 / measured as f64 - 1.0)),
    }
}

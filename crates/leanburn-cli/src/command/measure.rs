//! `leanburn measure`: what was planned beside what is.

use std::path::PathBuf;
use std::time::Instant;

use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_plan::{Candidate, Class, FlexMemory, Phase, Target, Timeline};
use leanburn_train::{CountingAllocator, PhasePeaks, TrainError, Trainer};
use serde_json::json;

use super::plan::{extent_of_data, load};
use crate::console::print_line;
use crate::device::device_for;
use crate::error::{CommandError, Result};
use crate::planning::ConfigSpace;
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
}

impl Measure {
    pub(super) fn run(self) -> Result<()> {
        let source = self.config.display().to_string();
        let config = load(&self.config, &self.set)?;
        if config.device.name != "flex" && config.device.name != "cpu" {
            return Err(CommandError::Input {
                subject: "device.name".into(),
                expected: "flex, the CPU, whose heap is counted".into(),
                found: config.device.name.clone(),
                remedy: "add --set device.name=flex".into(),
            });
        }
        let space = ConfigSpace::new(&config, &source, Target::Cpu, || extent_of_data(&config))?;
        match self.ladder {
            true => self.climb(&space, &source),
            false => self.compare(&space, &source),
        }
    }

    fn compare(&self, space: &ConfigSpace, source: &str) -> Result<()> {
        let candidate = space.configured();
        let timeline = space.record_with(&candidate, candidate.accumulation)?.timeline(&FlexMemory);
        let measured = self.measure(space, source, &candidate)?;
        let of = |phase: Phase| {
            let moments = timeline.moments.iter().filter(|moment| moment.phase == phase);
            moments.map(|moment| moment.during).max().unwrap_or(0)
        };
        let rows = [
            ("forward", of(Phase::Forward), measured.phases.forward),
            ("backward", of(Phase::Backward), measured.phases.backward),
            ("update", of(Phase::Update), measured.phases.update),
            ("step", timeline.peak(), measured.peak),
        ];
        if self.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|(name, predicted, measured)| json!({ "phase": name, "predicted_bytes": predicted, "measured_bytes": measured }))
                .collect();
            return print_line(json!({ "config": source, "step_seconds": measured.seconds, "phases": rows }));
        }
        let mut table = right_aligned(&["peak of the heap", "predicted", "measured", "difference"]);
        for (name, predicted, measured) in rows {
            let [planned, found] = [predicted, measured].map(|bytes| ByteSize::b(bytes).to_string());
            table.add_row([name.to_string(), planned, found, difference(predicted, measured)]);
        }
        print_line(table)?;
        print_line(format_args!("step  {:.2} s, median of {}", measured.seconds, self.steps))
    }

    fn climb(&self, space: &ConfigSpace, source: &str) -> Result<()> {
        let rungs = rungs(space);
        let mut progress = Progress::new("measuring", rungs.len() as u64, 0);
        let mut rows = Vec::new();
        for (name, class, candidate) in rungs {
            let timeline: Timeline = space.record_with(&candidate, candidate.accumulation)?.timeline(&FlexMemory);
            let measured = self.measure(space, source, &candidate)?;
            progress.step(|| name.clone());
            rows.push((name, class, timeline.peak(), measured));
        }
        progress.finish();
        if self.json {
            let row = |(name, class, predicted, measured): &(String, Class, u64, Measured)| {
                json!({ "saver": name, "class": class, "predicted_bytes": predicted, "measured_bytes": measured.peak,
                    "step_seconds": measured.seconds })
            };
            return print_line(json!({ "config": source, "ladder": rows.iter().map(row).collect::<Vec<_>>() }));
        }
        let mut table = right_aligned(&["saver", "peak", "change", "step", "change", "predicted peak", "class"]);
        let mut before: Option<(u64, f64)> = None;
        for (name, class, predicted, measured) in &rows {
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

    /// Takes real steps on random volumes.
    fn measure(&self, space: &ConfigSpace, source: &str, candidate: &Candidate) -> Result<Measured> {
        let mut config = space.config(candidate);
        config.begin_at_once();
        let device = device_for("flex", config.device.resolved_precision())?.autodiff();
        let before = CountingAllocator.current_usage() as u64;
        let run = workload::build(&config, source, &device)?;
        let mut trainer = Trainer::new(run, workload::trainer(&config), &device);
        let shape = space.batch_shape(candidate);
        let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(shape.random(&device))));
        trainer.step(&mut batches)?; // makes the states of the optimizers
        let mut times = Vec::new();
        let mut measured = Measured { peak: 0, phases: PhasePeaks::default(), seconds: 0.0 };
        for _ in 0..self.steps {
            let began = Instant::now();
            let report = trainer.step(&mut batches)?;
            times.push(began.elapsed().as_secs_f64());
            let peak = report.memory.map_or(0, |memory| memory.peak);
            measured.peak = measured.peak.max(peak.saturating_sub(before));
            let PhasePeaks { forward, backward, update } = report.phases;
            let largest = |one: u64, other: u64| one.max(other.saturating_sub(before));
            measured.phases.forward = largest(measured.phases.forward, forward);
            measured.phases.backward = largest(measured.phases.backward, backward);
            measured.phases.update = largest(measured.phases.update, update);
        }
        times.sort_by(f64::total_cmp);
        measured.seconds = times[times.len() / 2];
        Ok(measured)
    }
}

/// The savers that a configuration can have, each on top of those before it.
fn rungs(space: &ConfigSpace) -> Vec<(String, Class, Candidate)> {
    let configured = space.configured();
    let whole = configured.micro_batch as u64 * configured.accumulation;
    let (micro_batch, recompute, attention_block) = (whole as usize, Vec::new(), configured.attention_block);
    let plain = Candidate { variant: 0, micro_batch, accumulation: 1, recompute, attention_block };
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
        rungs.push(("bf16".into(), Class::Numerics, last));
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

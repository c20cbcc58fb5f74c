//! `leanburn measure`: planned and measured peaks.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_common::Bytes;
use leanburn_ops::StreamSettings;
use leanburn_plan::{Candidate, Class, MemoryModel, OperationEvent, Phase, Timeline};
use leanburn_systems::measure::{Measured, measure};
use leanburn_systems::planning::{ConfigSpace, planner_of};
use leanburn_systems::{Recompute, forget_resident_peak, resident_peak};
use serde_json::json;

use super::load::load;
use crate::console::print_line;
use crate::error::Result;
use crate::progress::Progress;

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

impl Measure {
    pub(super) fn run(self) -> Result<()> {
        let source = self.config.display().to_string();
        let config = load(&self.config, &self.set)?;
        let planner = planner_of(&config.device.name, None, None)?;
        let space = ConfigSpace::new(&config, &source, &planner, || config.data_size(&source))?;
        let bench = Bench { space: &space, memory: planner.memory_model(), source: &source, steps: self.steps };
        match self.ladder {
            true => self.climb(&bench),
            false => self.compare(&bench),
        }
    }

    fn compare(&self, bench: &Bench<'_>) -> Result<()> {
        let candidate = bench.space.configured();
        let timeline = bench.timeline(&candidate)?;
        forget_resident_peak();
        let measured = bench.measure(&candidate)?;
        let resident = resident_peak();
        let of = |phase: Phase| {
            let events = timeline.events.iter().filter(|event| event.phase == phase);
            events.map(|event| bench.seen(event)).max().unwrap_or_default()
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
            return print_line(
                json!({ "config": bench.source, "step_seconds": measured.seconds, "phases": rows, "resident_bytes": resident,
                "predicted_reserved_bytes": bench.memory.reserved(&timeline), "measured_reserved_bytes": measured.reserved }),
            );
        }
        let mut table = right_aligned(&["peak", "predicted", "measured", "difference"]);
        let reserved = reserved.map(|(predicted, measured)| ("reserved by the pool", predicted, measured));
        for (name, predicted, measured) in rows.into_iter().chain(reserved) {
            let [planned, found] = [predicted, measured].map(|bytes| bytes.to_string());
            table.add_row([name.to_string(), planned, found, difference(predicted, measured)]);
        }
        if let Some(resident) = resident {
            table.add_row(["resident", "", &resident.to_string(), ""]);
        }
        print_line(table)?;
        print_line(format_args!("step  {:.2} s, median of {}", measured.seconds, self.steps))
    }

    fn climb(&self, bench: &Bench<'_>) -> Result<()> {
        let levels = levels(bench)?;
        let mut progress = (!self.json).then(|| Progress::new("measuring", levels.len() as u64, 0));
        let mut rows = Vec::new();
        for (name, class, candidate) in levels {
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
            let row = |(name, class, predicted, reserved, measured): &(
                String,
                Class,
                Bytes,
                Option<Bytes>,
                Measured,
            )| {
                json!({ "saver": name, "class": class, "predicted_bytes": predicted, "measured_bytes": measured.peak,
                    "step_seconds": measured.seconds, "predicted_reserved_bytes": reserved,
                    "measured_reserved_bytes": measured.reserved })
            };
            return print_line(json!({ "config": bench.source, "ladder": rows.iter().map(row).collect::<Vec<_>>() }));
        }
        let mut table = right_aligned(&["saver", "peak", "change", "step", "change", "predicted peak", "class"]);
        let mut before: Option<(Bytes, f64)> = None;
        for (name, class, predicted, _, measured) in &rows {
            let change = |now: f64, before: Option<f64>| match before {
                Some(before) => format!("{:+.0} %", 100.0 * (now / before - 1.0)),
                None => String::new(),
            };
            table.add_row([
                name.clone(),
                ladder_size(measured.peak),
                change(measured.peak.as_gib(), before.map(|(peak, _)| peak.as_gib())),
                format!("{:.2} s", measured.seconds),
                change(measured.seconds, before.map(|(_, seconds)| seconds)),
                ladder_size(*predicted),
                class.to_string(),
            ]);
            before = Some((measured.peak, measured.seconds));
        }
        print_line(table)
    }
}

/// A peak with three digits behind GiB; small models in MiB.
fn ladder_size(peak: Bytes) -> String {
    if peak < Bytes::gib(1) { peak.to_string() } else { format!("{:.3} GiB", peak.as_gib()) }
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

    /// What a measurement can see of an operation: the heap is counted always, a pool is sampled between operations.
    fn seen(&self, event: &OperationEvent) -> Bytes {
        match self.memory.reserved(&Timeline::default()) {
            Some(_) => event.after,
            None => event.during,
        }
    }

    fn peak(&self, timeline: &Timeline) -> Bytes {
        timeline.events.iter().map(|event| self.seen(event)).max().unwrap_or_default()
    }

    /// Takes real steps on noise.
    fn measure(&self, candidate: &Candidate) -> Result<Measured> {
        let extent = self.space.extent(candidate);
        Ok(measure(&self.space.config(candidate), self.source, extent, self.steps)?)
    }
}

/// The savers that a configuration can have, each on top of those before it.
fn levels(bench: &Bench<'_>) -> Result<Vec<(String, Class, Candidate)>> {
    let space = bench.space;
    let configured = space.configured();
    let whole = configured.micro_batch as u64 * configured.accumulation;
    let plain = Candidate { knobs: configured.knobs, ..Candidate::new(whole as usize, 1) };
    let mut levels = vec![("nothing but lean operations".to_string(), Class::Lossless, plain.clone())];
    let mut last = plain;
    if whole > 1 {
        last = Candidate { micro_batch: 1, accumulation: whole, ..last };
        levels.push((format!("accumulation, {whole} x 1"), Class::Lossless, last.clone()));
    }
    last.recompute = Recompute::all().patterns().to_vec();
    levels.push(("recomputation".into(), Class::Lossless, last.clone()));
    let finest = finest_streamable(&bench.timeline(&last)?);
    if !finest.is_empty() {
        last = last.with_streamed(finest, StreamSettings::default().with_slab_planes(LADDER_SLAB_PLANES));
        levels.push(("streamed".into(), Class::Lossless, last.clone()));
    }
    if let Some(half) = space.half_precision() {
        last.variant = half;
        levels.push((space.config(&last).device.resolved_precision().to_string(), Class::Numerics, last));
    }
    Ok(levels)
}

/// Planes of a slab in the ladder: what convolutions compute together, as volumes that are measured may be small.
const LADDER_SLAB_PLANES: usize = 4;

/// The levels of full size that could be streamed: of encoder and decoder those that hold the most.
fn finest_streamable(timeline: &Timeline) -> Vec<String> {
    let tops = (0..timeline.segments.len()).filter(|&index| timeline.parents[index].is_none());
    let names = tops.filter(|&index| timeline.streamable[index]).map(|index| timeline.segments[index].clone());
    names.filter(|name| name.ends_with(".level_0")).collect()
}

fn right_aligned(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(headings);
    for column in 1..headings.len() {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}

fn difference(predicted: Bytes, measured: Bytes) -> String {
    match measured {
        Bytes(0) => String::new(),
        _ => format!("{:+.2} %", 100.0 * (predicted.as_mib() / measured.as_mib() - 1.0)),
    }
}

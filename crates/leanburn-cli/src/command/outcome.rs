//! How a run went so far: the report, and the figures on the terminal.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_systems::metrics::{PEAK, Phase, Record, read_metrics};
use leanburn_systems::session::{MemoryAccount, Snapshot};
use leanburn_systems::{Curves, L1};

use crate::error::Result;
use crate::report::{Chart, MemoryPeak, MemoryRow, Picture, Report, ReportError, Series};

/// How many pictures go into the report at most; the first and the last are always there.
const PICTURES: usize = 12;

/// What a run has come to.
pub(super) struct Outcome<'a> {
    snapshot: &'a Snapshot<'a>,
    records: Vec<Record>,
}

impl<'a> Outcome<'a> {
    /// Reads the metrics of the run.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn of(snapshot: &'a Snapshot<'a>) -> Result<Self> {
        Ok(Self { snapshot, records: read_metrics(&snapshot.folder.metrics())? })
    }

    /// Everything there is to see, as one page.
    pub fn report(&self) -> Result<Report> {
        Ok(Report {
            title: self.snapshot.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            summary: self.summary(),
            curves: curves(&self.records, self.snapshot.config.curves()),
            pictures: self.pictures()?,
            memory: rows(self.snapshot.memory),
            memory_peak: MemoryPeak {
                measured: self.snapshot.memory.peak,
                predicted: Some(self.snapshot.memory.planned()),
                budget: None,
            },
            config_yaml: self.snapshot.config.to_yaml(),
            notes: Vec::new(),
        })
    }

    /// The outcome at a glance.
    pub fn summary(&self) -> Vec<(String, String)> {
        let mut outcomes: Vec<(String, String)> = validation_names(&self.records)
            .into_iter()
            .filter_map(|key| {
                let points = validation(&self.records, &key);
                let (first, last) = (points.first()?.1, points.last()?.1);
                let share = if self.snapshot.config.is_error(&key) {
                    format!(" ({:.0} %)", 100.0 * last / first)
                } else {
                    String::new()
                };
                Some((title(&key), format!("{first:.4} → {last:.4}{share}")))
            })
            .collect();
        if outcomes.is_empty() {
            outcomes.push((title(L1), "no validation samples".into()));
        }
        let peak = self.snapshot.memory.peak.map_or("not measured".to_string(), |peak| peak.to_string());
        let resident = self.snapshot.memory.resident.map_or("not measured".to_string(), |peak| peak.to_string());
        let rest = [
            ("peak memory", peak),
            ("resident", resident),
            ("time", format!("{:.0} s", self.snapshot.seconds)),
            ("device", self.snapshot.config.device.name.clone()),
            ("precision", self.snapshot.config.device.resolved_precision().to_string()),
        ];
        let early = if self.snapshot.stopped_early { ", stopped early" } else { "" };
        let steps = ("steps".to_string(), format!("{}{early}", self.snapshot.steps));
        outcomes.extend(self.snapshot.best.map(|best| {
            let name = best.metric.replace('_', " ");
            ("best".to_string(), format!("{name} {:.4} at step {}", best.value, best.step))
        }));
        let rest = rest.into_iter().map(|(name, value)| (name.to_string(), value));
        [steps].into_iter().chain(outcomes).chain(rest).collect()
    }

    fn pictures(&self) -> Result<Vec<Picture>> {
        let mut steps: Vec<u64> = self.records.iter().map(|record| record.step).collect();
        steps.push(0);
        steps.sort_unstable();
        steps.dedup();
        steps.retain(|&step| self.snapshot.folder.picture(step).is_file());
        let thinned = (0..steps.len().min(PICTURES)).map(|at| match steps.len() {
            count if count <= PICTURES => steps[at],
            count => steps[at * (count - 1) / (PICTURES - 1)],
        });
        let caption = self.snapshot.config.picture_label().caption;
        let read = |step: u64| {
            let path = self.snapshot.folder.picture(step);
            let png = std::fs::read(&path).map_err(|source| ReportError::File { action: "read", path, source })?;
            Ok(Picture { title: format!("Step {step}"), caption: caption.into(), png })
        };
        thinned.map(read).collect()
    }
}

/// The values of a validation metric by step.
fn validation(records: &[Record], key: &str) -> Vec<(f64, f64)> {
    let validations = records.iter().filter(|record| record.phase == Phase::Validation);
    validations.filter_map(|record| Some((record.step as f64, *record.values.get(key)?))).collect()
}

/// The validation metrics that there are.
fn validation_names(records: &[Record]) -> BTreeSet<String> {
    let validations = records.iter().filter(|record| record.phase == Phase::Validation);
    validations.flat_map(|record| record.values.keys().cloned()).collect()
}

/// A validation metric in words.
fn title(key: &str) -> String {
    match key {
        L1 => "validation L1".into(),
        key => format!("validation {}", key.replace('_', " ")),
    }
}

/// Curves of the system, then of learning rates, gradient norms and memory; parts that no step has are left out.
fn curves(records: &[Record], of_system: &[Curves]) -> Vec<Chart> {
    let series = |name: &str, key: &str, scale: f64| {
        let train = records.iter().filter(|record| record.phase == Phase::Train);
        let points: Vec<_> =
            train.filter_map(|record| Some((record.step as f64, *record.values.get(key)? * scale))).collect();
        Series { name: name.to_string(), points }
    };
    let keys = records.iter().filter(|record| record.phase == Phase::Train).flat_map(|record| record.values.keys());
    let learners: BTreeSet<&str> = keys.filter_map(|key| key.strip_suffix(".gradient_norm")).collect();
    let of_learners =
        |what: &str| learners.iter().map(|learner| series(learner, &format!("{learner}.{what}"), 1.0)).collect();
    let chart = |title: &str, y_label: &str, log_y, series: Vec<Series>| Chart {
        title: title.into(),
        y_label: y_label.into(),
        log_y,
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
    };
    let of_system = of_system.iter().map(|curves| {
        let train = curves.train.iter().map(|(name, key)| series(name, key, 1.0));
        let validated = |key: &&str| Series { name: title(key), points: validation(records, key) };
        let all = train.chain(curves.validation.iter().map(validated)).collect();
        chart(curves.title, curves.y_label, curves.log_y, all)
    });
    let mib = 1.0 / f64::from(1 << 20);
    let memory = vec![series("peak of the step", PEAK, mib), series("after the step", "memory.live_bytes", mib)];
    let of_all = [
        chart("Gradient norm", "L2 norm", true, of_learners("gradient_norm")),
        chart("Learning rate", "", false, of_learners("learning_rate")),
        chart("Loss scale", "", true, of_learners("loss_scale")),
        chart("Memory", "MiB", false, memory),
    ];
    let is_scaled =
        |chart: &Chart| chart.series.iter().flat_map(|series| &series.points).any(|&(_, scale)| scale != 1.0);
    let is_worth = |chart: &Chart| !chart.series.is_empty() && (chart.title != "Loss scale" || is_scaled(chart));
    of_system.chain(of_all).filter(is_worth).collect()
}

/// The causes of memory use as rows of the report.
fn rows(memory: &MemoryAccount) -> Vec<MemoryRow> {
    let row = |cause: leanburn_systems::session::MemoryCause| MemoryRow {
        cause: cause.cause,
        bytes: cause.size,
        note: cause.note,
    };
    memory.causes().into_iter().map(row).collect()
}

/// The causes of memory use as a table for the terminal.
pub(super) fn memory_table(memory: &MemoryAccount) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["memory at the peak", "size", "share", ""]);
    let whole = memory.peak.map_or(1, |peak| peak.get().max(1)) as f64;
    for cause in memory.causes() {
        let share = 100.0 * cause.size.get() as f64 / whole;
        table.add_row([cause.cause, cause.size.to_string(), format!("{share:.1} %"), cause.note]);
    }
    let peak = memory.peak.map_or("not measured".to_string(), |peak| peak.to_string());
    table.add_row(["peak, measured".to_string(), peak, String::new(), String::new()]);
    table.add_row(["peak, planned".to_string(), memory.planned().to_string(), String::new(), String::new()]);
    for column in [1, 2] {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}

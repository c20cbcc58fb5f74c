//! How a run went so far: the report, and the figures on the terminal.

use std::collections::BTreeSet;

use bytesize::ByteSize;

use super::account::Account;
use crate::config::{Config, SystemSection};
use crate::error::Result;
use crate::report::{Chart, MemoryPeak, Phase, Picture, Record, Report, ReportError, Series};
use crate::run_folder::RunFolder;
use crate::workload::L1;

/// Name of a step's peak in the metrics.
pub(super) const PEAK: &str = "memory.peak_bytes";

/// How many pictures go into the report at most; the first and the last are always there.
const PICTURES: usize = 12;

/// What a run has come to.
pub(super) struct Outcome<'a> {
    pub config: &'a Config,
    pub folder: &'a RunFolder,
    pub records: Vec<Record>,
    pub account: Account,
    /// Steps taken.
    pub steps: u64,
    /// Seconds of training, those before a resume included.
    pub seconds: f64,
}

impl Outcome<'_> {
    /// Everything there is to see, as one page.
    pub fn report(&self) -> Result<Report> {
        Ok(Report {
            title: self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            summary: self.summary(),
            curves: curves(&self.records),
            pictures: self.pictures()?,
            memory: self.account.rows(),
            memory_peak: MemoryPeak {
                measured: self.account.peak(),
                predicted: Some(ByteSize::b(self.account.planned())),
                budget: None,
            },
            config_yaml: self.config.to_yaml(),
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
                let share = if is_error(&key) { format!(" ({:.0} %)", 100.0 * last / first) } else { String::new() };
                Some((title(&key), format!("{first:.4} → {last:.4}{share}")))
            })
            .collect();
        if outcomes.is_empty() {
            outcomes.push((title(L1), "no validation samples".into()));
        }
        let peak = self.account.peak().map_or("not measured".to_string(), |peak| peak.to_string());
        let rest = [
            ("peak memory", peak),
            ("time", format!("{:.0} s", self.seconds)),
            ("device", self.config.device.name.clone()),
            ("precision", self.config.device.resolved_precision().to_string()),
        ];
        let steps = ("steps".to_string(), self.steps.to_string());
        let rest = rest.into_iter().map(|(name, value)| (name.to_string(), value));
        [steps].into_iter().chain(outcomes).chain(rest).collect()
    }

    fn pictures(&self) -> Result<Vec<Picture>> {
        let mut steps: Vec<u64> = self.records.iter().map(|record| record.step).collect();
        steps.push(0);
        steps.sort_unstable();
        steps.dedup();
        steps.retain(|&step| self.folder.picture(step).is_file());
        let thinned = (0..steps.len().min(PICTURES)).map(|at| match steps.len() {
            count if count <= PICTURES => steps[at],
            count => steps[at * (count - 1) / (PICTURES - 1)],
        });
        let caption = match self.config.system {
            SystemSection::Forecaster(_) => "truth, forecast, last field seen, and the forecast's absolute difference",
            SystemSection::Vae3d(_) => "scene and reconstruction from above, and their absolute difference",
            _ => "original, reconstruction and absolute difference; sagittal, coronal and axial mid-planes",
        };
        let read = |step: u64| {
            let path = self.folder.picture(step);
            let png = std::fs::read(&path).map_err(|source| ReportError::File { action: "read", path, source })?;
            Ok(Picture { step, caption: caption.into(), png })
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

/// Whether a metric is the better the nearer to 0, so that its share of the first value says something.
fn is_error(key: &str) -> bool {
    [L1, "reconstruction", "chamfer_voxels", "rmse", "mae"].contains(&key)
}

/// A validation metric in words.
fn title(key: &str) -> String {
    match key {
        L1 => "validation L1".into(),
        key => format!("validation {}", key.replace('_', " ")),
    }
}

/// Curves of losses, learning rates, gradient norms and memory; parts that no step has are left out.
fn curves(records: &[Record]) -> Vec<Chart> {
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
    let validated = |key: &str| Series { name: title(key), points: validation(records, key) };
    let mib = 1.0 / f64::from(1 << 20);
    let charts = [
        chart(
            "Reconstruction",
            "loss",
            true,
            vec![series("training", "reconstruction", 1.0), validated("reconstruction"), validated(L1)],
        ),
        chart(
            "Forecast",
            "error",
            true,
            vec![series("training loss", "forecast", 1.0), validated("rmse"), validated("mae")],
        ),
        chart("Skill", "1 is perfect, 0 is persistence", false, vec![validated("skill")]),
        chart("Occupancy", "intersection over union", false, vec![validated("iou")]),
        chart("Codebook", "share of codes used", false, vec![validated("codes_used")]),
        chart("Commitment", "loss", true, vec![series("training", "commitment", 1.0)]),
        chart("Perceptual", "loss", true, vec![series("training", "perceptual", 1.0)]),
        chart("Kullback-Leibler divergence", "nats", true, vec![series("training", "kl", 1.0)]),
        chart(
            "Adversarial losses",
            "loss",
            false,
            vec![series("generator", "generator", 1.0), series("discriminator", "discriminator", 1.0)],
        ),
        chart("Gradient norm", "L2 norm", true, of_learners("gradient_norm")),
        chart("Learning rate", "", false, of_learners("learning_rate")),
        chart("Loss scale", "", true, of_learners("loss_scale")),
        chart(
            "Memory",
            "MiB",
            false,
            vec![series("peak of the step", PEAK, mib), series("after the step", "memory.live_bytes", mib)],
        ),
    ];
    let is_scaled =
        |chart: &Chart| chart.series.iter().flat_map(|series| &series.points).any(|&(_, scale)| scale != 1.0);
    let is_worth = |chart: &Chart| !chart.series.is_empty() && (chart.title != "Loss scale" || is_scaled(chart));
    charts.into_iter().filter(is_worth).collect()
}

//! How a run went so far: the report, and the figures on the terminal.

use bytesize::ByteSize;

use super::account::Account;
use crate::config::Config;
use crate::error::Result;
use crate::report::{Chart, MemoryPeak, Phase, Picture, Record, Report, ReportError, Series};
use crate::run_folder::RunFolder;

/// Name of the validation loss in the metrics.
pub(super) const L1: &str = "l1";
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
        let l1 = validation_l1(&self.records);
        let outcome = match (l1.first(), l1.last()) {
            (Some(first), Some(last)) => format!("{:.4} → {:.4} ({:.0} %)", first.1, last.1, 100.0 * last.1 / first.1),
            _ => "no validation volumes".into(),
        };
        let peak = self.account.peak().map_or("not measured".to_string(), |peak| peak.to_string());
        [
            ("steps", self.steps.to_string()),
            ("validation L1", outcome),
            ("peak memory", peak),
            ("time", format!("{:.0} s", self.seconds)),
            ("device", self.config.device.name.clone()),
            ("precision", format!("{:?}", self.config.device.resolved_precision()).to_lowercase()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
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
        let caption = "original, reconstruction and absolute difference; sagittal, coronal and axial mid-planes";
        let read = |step: u64| {
            let path = self.folder.picture(step);
            let png = std::fs::read(&path).map_err(|source| ReportError::File { action: "read", path, source })?;
            Ok(Picture { step, caption: caption.into(), png })
        };
        thinned.map(read).collect()
    }
}

fn validation_l1(records: &[Record]) -> Vec<(f64, f64)> {
    let validations = records.iter().filter(|record| record.phase == Phase::Validation);
    validations.filter_map(|record| Some((record.step as f64, *record.values.get(L1)?))).collect()
}

/// Curves of losses, learning rates, gradient norms and memory; parts that no step has are left out.
fn curves(records: &[Record]) -> Vec<Chart> {
    let series = |name: &str, key: &str, scale: f64| {
        let train = records.iter().filter(|record| record.phase == Phase::Train);
        let points: Vec<_> =
            train.filter_map(|record| Some((record.step as f64, *record.values.get(key)? * scale))).collect();
        Series { name: name.to_string(), points }
    };
    let of_learners = |what: &str| {
        let name = |learner: &str| series(learner, &format!("{learner}.{what}"), 1.0);
        vec![name("autoencoder"), name("discriminator")]
    };
    let chart = |title: &str, y_label: &str, log_y, series: Vec<Series>| Chart {
        title: title.into(),
        y_label: y_label.into(),
        log_y,
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
    };
    let validation = Series { name: "validation L1".into(), points: validation_l1(records) };
    let mib = 1.0 / f64::from(1 << 20);
    let charts = [
        chart("Reconstruction", "loss", true, vec![series("training", "reconstruction", 1.0), validation]),
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

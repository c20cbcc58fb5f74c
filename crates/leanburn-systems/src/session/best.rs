//! The best weights of a run by a validation metric, and whether it gets any better.

use std::fs;

use leanburn_common::atomic;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::{Result, SystemError};
use crate::evaluation::Metrics;
use crate::metrics::{Phase, Record};
use crate::run_folder::RunFolder;

/// The best value of a metric, and when it was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Best {
    /// The metric.
    pub metric: String,
    /// Steps taken until then.
    pub step: u64,
    /// Its value.
    pub value: f64,
}

/// What a run is judged by as it goes on: a function of its records, so that a resumed run is judged as one that never stopped.
#[derive(Debug)]
pub(super) struct Watch {
    metric: String,
    is_error: bool,
    /// Whether the system's charts have it.
    is_known: bool,
    patience: Option<u64>,
    min_delta: f64,
    /// The best whose weights are kept.
    kept: Option<Best>,
    /// The value that must be beaten by `min_delta`, and the validations since it was reached.
    reached: Option<f64>,
    since: u64,
}

impl Watch {
    /// Of a run with these records so far; none where the configuration names no metric.
    pub fn of(config: &Config, folder: &RunFolder, records: &[Record]) -> Option<Self> {
        let training = config.training();
        let metric = training.best_metric.clone()?;
        let mut watch = Self {
            is_error: config.is_error(&metric),
            is_known: config.curves().iter().any(|curves| curves.validation.contains(&metric.as_str())),
            metric,
            patience: training.early_stopping_patience,
            min_delta: training.early_stopping_min_delta,
            kept: None,
            reached: None,
            since: 0,
        };
        for record in records.iter().filter(|record| record.phase == Phase::Validation) {
            match record.values.get(&watch.metric) {
                Some(value) => _ = watch.take(record.step, *value),
                None => watch.since += 1,
            }
        }
        // Weights of a step that this run is still to take, or of another metric, are none of its own.
        let there = fs::read(folder.best().join(FILE)).ok().and_then(|text| serde_json::from_slice::<Best>(&text).ok());
        watch.kept = watch.kept.filter(|kept| there.as_ref() == Some(kept));
        Some(watch)
    }

    /// The best so far.
    pub fn best(&self) -> Option<&Best> {
        self.kept.as_ref()
    }

    /// Whether there was nothing better for too long.
    pub fn is_over(&self) -> bool {
        self.patience.is_some_and(|patience| self.since >= patience)
    }

    /// Takes what a validation gave; whether it is the best so far. A metric that is not finite, or was left out as a distance to nothing
    /// is, is not better.
    ///
    /// # Errors
    ///
    /// If the system has no such metric.
    pub fn judge(&mut self, step: u64, metrics: &Metrics) -> Result<bool> {
        match metrics.iter().find(|(name, _)| *name == self.metric) {
            Some((_, value)) => Ok(self.take(step, *value)),
            None if self.is_known && !metrics.is_empty() => {
                self.since += 1;
                Ok(false)
            }
            None => {
                let names: Vec<&str> = metrics.iter().map(|(name, _)| *name).collect();
                Err(SystemError::Input {
                    subject: "best_metric".into(),
                    expected: match names.is_empty() {
                        true => "validation samples".into(),
                        false => format!("a validation metric: {}", names.join(", ")),
                    },
                    found: if names.is_empty() { "none".into() } else { self.metric.clone() },
                    remedy: "name one of the metrics, hold data out (data.val_fraction), or remove the key".into(),
                })
            }
        }
    }

    fn take(&mut self, step: u64, value: f64) -> bool {
        if !value.is_finite() {
            self.since += 1;
            return false;
        }
        let gain = |before: f64| if self.is_error { before - value } else { value - before };
        match self.reached.is_none_or(|before| gain(before) > self.min_delta) {
            true => (self.reached, self.since) = (Some(value), 0),
            false => self.since += 1,
        }
        let is_best = self.kept.as_ref().is_none_or(|kept| gain(kept.value) > 0.0);
        if is_best {
            self.kept = Some(Best { metric: self.metric.clone(), step, value });
        }
        is_best
    }

    /// Keeps the weights that `save` writes to a path as those of the best.
    pub fn keep(&self, config: &Config, folder: &RunFolder, save: impl FnOnce(&RunFolder) -> Result<()>) -> Result<()> {
        let (place, Some(best)) = (RunFolder::new(folder.best()), &self.kept) else { return Ok(()) };
        let file = place.path().join(FILE);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(SystemError::writing(&file)(error));
            }
            _ => {} // from here on, what lies there is of no known step
        }
        weights_alone(config, &place, save)?;
        let text = serde_json::to_vec_pretty(best).expect("numbers serialise");
        atomic::write(&file, &text).map_err(SystemError::writing(&file))
    }
}

/// Writes weights with the configuration that says what they are of, into a folder of their own.
pub(super) fn weights_alone(
    config: &Config,
    place: &RunFolder,
    save: impl FnOnce(&RunFolder) -> Result<()>,
) -> Result<()> {
    fs::create_dir_all(place.path()).map_err(SystemError::writing(place.path()))?;
    atomic::write(&place.config(), config.to_yaml().as_bytes()).map_err(SystemError::writing(&place.config()))?;
    save(place)
}

/// What says of which step the best weights are.
const FILE: &str = "best.json";

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(metric: &str, set: &[&str], values: &[f64]) -> Watch {
        let text = "data: {phantom: {count: 2}}\nautoencoder: {num_channels: [32]}\n";
        let set: Vec<String> = [format!("best_metric={metric}")]
            .into_iter()
            .chain(set.iter().map(ToString::to_string))
            .map(|set| format!("autoencoder.training.{set}"))
            .collect();
        let config = Config::parse(text, "test", &set).unwrap();
        let records: Vec<Record> = values
            .iter()
            .enumerate()
            .map(|(step, value)| Record {
                step: step as u64,
                phase: Phase::Validation,
                seconds: 0.0,
                values: [(metric.to_string(), *value)].into(),
            })
            .collect();
        Watch::of(&config, &RunFolder::new("nowhere"), &records).unwrap()
    }

    #[test]
    fn an_error_gets_better_downwards_and_a_score_upwards() {
        let better = |metric: &str, value: f64| {
            let mut watch = watch(metric, &[], &[]);
            let judge = |watch: &mut Watch, value| {
                let metric = if metric == "l1" { "l1" } else { "dice" };
                watch.judge(1, &vec![(metric, value)]).unwrap()
            };
            assert!(judge(&mut watch, 0.5), "the first is the best");
            assert!(!judge(&mut watch, 0.5), "as good is not better");
            judge(&mut watch, value)
        };
        assert_eq!((better("l1", 0.4), better("l1", 0.6)), (true, false));
        assert_eq!((better("dice", 0.4), better("dice", 0.6)), (false, true));
        // what was no number at first can still get better
        let mut late = watch("l1", &[], &[f64::NAN, f64::INFINITY]);
        assert!(!late.judge(1, &vec![("l1", f64::NAN)]).unwrap() && late.best().is_none());
        assert!(late.judge(2, &vec![("l1", 0.5)]).unwrap());
        // no chart needs to have it
        assert!(!watch("dice_class_3", &[], &[]).judge(0, &vec![("dice_class_3", f64::NAN)]).unwrap());
        let error = watch("iou", &[], &[]).judge(0, &vec![("l1", 0.1)]).unwrap_err().to_string();
        assert!(error.contains("a validation metric: l1") && error.contains("iou"), "{error}");
    }

    #[test]
    fn a_run_is_over_when_nothing_was_better_by_the_delta_for_long_enough() {
        let over = |set: &[&str], values: &[f64]| watch("l1", set, values).is_over();
        let patience = "early_stopping_patience=2";
        assert!(!over(&[], &[1.0, 2.0, 2.0, 2.0]));
        assert!(!over(&[patience], &[1.0, 0.9, 0.95]));
        assert!(over(&[patience], &[1.0, 0.9, 0.95, 0.91]));
        assert!(!over(&[patience], &[1.0, 0.99, 0.98]));
        assert!(over(&[patience, "early_stopping_min_delta=0.1"], &[1.0, 0.99, 0.98]));
        // what creeps down counts from where it was last reached
        assert!(!over(&[patience, "early_stopping_min_delta=0.1"], &[1.0, 0.95, 0.89]));
        assert!(!over(&[patience], &[1.0, 2.0, f64::NAN, 0.5]), "what is no number is not better");
    }
}

//! The configuration of a sequence of fields.

use crate::checks;
use crate::error::DataError;
use crate::sequences::advection::AdvectionConfig;
use crate::sequences::sequence::Sequence;
use crate::volumes::Normalize;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which fields to forecast, from what, and how to prepare them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceConfig {
    /// Consecutive files, or folders of them, each `[time, channels, height, width]`; sorted by
    /// name, numbers by value.
    pub paths: Vec<PathBuf>,
    /// Synthetic fields in place of `paths`.
    pub advection: Option<AdvectionConfig>,
    /// Frames that a forecaster sees.
    pub input_days: usize,
    /// Frames that it predicts.
    pub predict_days: usize,
    /// Channels that it sees, counted from 0 in the files; all of them if none.
    pub use_channels: Vec<usize>,
    /// The channel that it predicts, counted likewise; all that it sees if none.
    pub target_channel: Option<usize>,
    /// Each block of so many by so many places becomes one, their mean.
    pub downsample: usize,
    /// How each channel is brought to a common range; learnt from the training part alone.
    pub normalize: Normalize,
    /// Percentiles that become 0 and 1 under [`Normalize::Percentile`]; nothing is clipped.
    pub percentiles: [f64; 2],
    /// Share of the time that is held out, at the end.
    pub val_fraction: f64,
    /// Threads that make batches; 0 makes them in the caller's.
    pub num_workers: usize,
    /// Finished batches that may wait, rounded up to a multiple of `num_workers`.
    pub prefetch: usize,
}

impl Default for SequenceConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            advection: None,
            input_days: 7,
            predict_days: 1,
            use_channels: Vec::new(),
            target_channel: None,
            downsample: 1,
            normalize: Normalize::ZScore,
            percentiles: [0.5, 99.5],
            val_fraction: 0.2,
            num_workers: 2,
            prefetch: 2,
        }
    }
}

/// More frames in one window are taken for a typing error.
const MOST_DAYS: usize = 1 << 20;

impl SequenceConfig {
    /// Does to fields what training does before it normalizes them: `use_channels`, `downsample`.
    ///
    /// # Errors
    /// If a channel is not there, or there is no memory.
    pub fn prepare(&self, sequence: Sequence) -> Result<Sequence, DataError> {
        let sequence = match &self.use_channels[..] {
            [] => sequence,
            channels => sequence.select_channels(channels)?,
        };
        if self.downsample == 1 { Ok(sequence) } else { sequence.downsample(self.downsample) }
    }

    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        self.check_source(&mut validation);
        let expected = format!("1 to {MOST_DAYS} frames");
        for (key, days) in [("input_days", self.input_days), ("predict_days", self.predict_days)] {
            validation.check(
                (1..=MOST_DAYS).contains(&days),
                key,
                &expected,
                days,
                "write a number of frames, such as 1",
            );
        }
        self.check_channels(&mut validation);
        let factor = "1 (no change) or more";
        validation.check(
            self.downsample > 0,
            "downsample",
            factor,
            self.downsample,
            "write 1 for the grid of the files",
        );
        checks::percentiles(&mut validation, self.percentiles);
        checks::val_fraction(&mut validation, self.val_fraction);
        checks::loading(&mut validation, self.num_workers, self.prefetch);
        validation.errors()
    }

    fn check_source(&self, validation: &mut Validation) {
        checks::paths(validation, "paths", &self.paths);
        let (given, synthetic) = (!self.paths.is_empty(), self.advection.is_some());
        let help = "name some, or set `advection`";
        validation.check(given || synthetic, "paths", "files or folders", "none", help);
        let expected = "either `paths` or `advection`";
        validation.check_together(!(given && synthetic), &["paths"], "advection", expected, "both", "drop one");
        if let Some(advection) = &self.advection {
            validation.extend_below("advection", advection.validate());
        }
    }

    fn check_channels(&self, validation: &mut Validation) {
        let mut channels = self.use_channels.clone();
        channels.sort_unstable();
        channels.dedup();
        let once = channels.len() == self.use_channels.len();
        let found = format!("{:?}", self.use_channels);
        validation.check(once, "use_channels", "each channel once", found, "drop the ones that come again");
        if let Some(target) = self.target_channel {
            let seen = self.use_channels.is_empty() || self.use_channels.contains(&target);
            let (with, help) = (&["use_channels"], "add it to `use_channels`");
            validation.check_together(seen, with, "target_channel", "one of `use_channels`", target, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_found_at_once() {
        let advection = AdvectionConfig {
            steps: 0,
            shape: [0, usize::MAX],
            speed: f64::NAN,
            turn_steps: 0.0,
            forcing: f64::INFINITY,
            ..AdvectionConfig::default()
        };
        let config = SequenceConfig {
            paths: vec!["".into()],
            advection: Some(advection),
            input_days: 0,
            predict_days: usize::MAX,
            use_channels: vec![1, 2, 1],
            target_channel: Some(0),
            downsample: 0,
            percentiles: [99.0, 1.0],
            val_fraction: 1.0,
            num_workers: 100_000,
            prefetch: usize::MAX,
            ..SequenceConfig::default()
        };
        let keys: Vec<String> = config.validate().into_iter().map(|error| error.key).collect();
        let expected = [
            "paths",
            "advection",
            "advection.steps",
            "advection.shape",
            "advection.speed",
            "advection.turn_steps",
            "advection.forcing",
            "input_days",
            "predict_days",
            "use_channels",
            "target_channel",
            "downsample",
            "percentiles",
            "val_fraction",
            "num_workers",
            "prefetch",
        ];
        assert_eq!(keys, expected);
        let none: Vec<String> = SequenceConfig::default().validate().into_iter().map(|error| error.key).collect();
        assert_eq!(none, ["paths"]);
    }

    #[test]
    fn unknown_keys_are_rejected_and_the_others_have_defaults() {
        let text = r#"{"advection": {"flow": "rotating"}, "input_days": 3, "use_channels": [0, 2]}"#;
        let config: SequenceConfig = serde_json::from_str(text).unwrap();
        assert_eq!((config.input_days, config.predict_days, config.validate()), (3, 1, vec![]));
        let again: SequenceConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
        for wrong in [r#"{"inputdays": 3}"#, r#"{"advection": {"sped": 3}}"#] {
            let error = serde_json::from_str::<SequenceConfig>(wrong).unwrap_err().to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
    }
}

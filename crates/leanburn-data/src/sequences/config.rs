//! The configuration of a sequence of fields.

use crate::checks;
use crate::error::DataError;
use crate::sequences::advection::AdvectionConfig;
use crate::sequences::axes::Axes;
use crate::sequences::navier_stokes::NavierStokesConfig;
use crate::sequences::sequence::Sequence;
use crate::volumes::Normalize;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which fields to forecast, from what, and how to prepare them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceConfig {
    /// Consecutive files, or folders of them, each `[time, channels, height, width]` or `[time, height, width]`; sorted by
    /// name, numbers by value.
    pub paths: Vec<PathBuf>,
    /// The array of each file that holds the fields; the one named `sequence`, or the only one, if none.
    pub data_key: Option<String>,
    /// What the axes of that array are, where they are not in this order: `n` for trajectories, `t` for time, `c` for channels, `h`
    /// and `w`, as in `thwc`. No window reaches from a trajectory into the next.
    pub axes: Option<String>,
    /// Height and width of the fields in files, before `downsample`, so that a plan needs no file; files of others are rejected.
    pub shape: Option<[usize; 2]>,
    /// Synthetic fields in place of `paths`.
    pub advection: Option<AdvectionConfig>,
    /// Vorticity of flows in place of `paths`.
    pub navier_stokes: Option<NavierStokesConfig>,
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
    /// More than 1 for super-resolution: a window is one frame, blurred and on a grid so many times as coarse, and what is to be
    /// predicted is that frame itself.
    pub sample_factor: usize,
    /// How each channel is brought to a common range; learnt from the training part alone.
    pub normalize: Normalize,
    /// Whether [`Normalize::ZScore`] is that of each place instead of the whole channel.
    pub pointwise: bool,
    /// Whether a training window is moved along both axes by lengths of its own, what leaves on one side coming in on the other: for fields
    /// that are periodic.
    pub roll: bool,
    /// Whether a training window is turned by a number of quarter turns of its own: for square fields of scalars, such as vorticity.
    pub rotate90: bool,
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
            data_key: None,
            axes: None,
            shape: None,
            advection: None,
            navier_stokes: None,
            input_days: 7,
            predict_days: 1,
            use_channels: Vec::new(),
            target_channel: None,
            downsample: 1,
            sample_factor: 1,
            normalize: Normalize::ZScore,
            pointwise: false,
            roll: false,
            rotate90: false,
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

    /// Frames of a window: those that are seen and those that are predicted.
    pub(crate) fn days(&self) -> usize {
        if self.sample_factor > 1 { 1 } else { self.input_days + self.predict_days }
    }

    /// Reads a file and does to its fields what [`prepare`](Self::prepare) does.
    ///
    /// # Errors
    /// As [`Sequence::read`] and [`prepare`](Self::prepare), and if the file has no array `data_key`.
    pub fn read(&self, path: &Path) -> Result<Sequence, DataError> {
        let axes = self.axes.as_deref().and_then(Axes::of);
        let sequence = Sequence::read_as(path, self.data_key.as_deref(), axes)?;
        let [.., height, width] = sequence.shape();
        if self.shape.is_some_and(|shape| shape != [height, width]) {
            let remedy = "Correct `shape`, or leave it out.";
            let expected = format!("fields of {:?}, as `shape` says", self.shape.unwrap_or_default());
            return Err(DataError::malformed(expected, format!("{:?}", [height, width]), remedy).at(path));
        }
        self.prepare(sequence)
    }

    /// Height and width of the prepared fields, where the configuration says them.
    pub fn size(&self) -> Option<[usize; 2]> {
        let advected = self.advection.as_ref().map(|fields| fields.shape);
        let flows = self.navier_stokes.as_ref().map(|flows| [flows.size; 2]);
        let size = advected.or(flows).or(self.shape)?;
        Some(size.map(|length| length.div_ceil(self.downsample.max(1))))
    }

    /// How many synthetic fields there are.
    pub fn synthetic_frames(&self) -> Option<usize> {
        let flows = self.navier_stokes.as_ref().map(|flows| flows.trajectories * flows.steps);
        self.advection.as_ref().map(|advection| advection.steps).or(flows)
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
        self.check_super_resolution(&mut validation);
        let factor = "1 (no change) or more";
        validation.check(
            self.downsample > 0,
            "downsample",
            factor,
            self.downsample,
            "write 1 for the grid of the files",
        );
        self.check_placement(&mut validation);
        checks::percentiles(&mut validation, self.percentiles);
        checks::val_fraction(&mut validation, self.val_fraction);
        checks::loading(&mut validation, self.num_workers, self.prefetch);
        validation.errors()
    }

    fn check_source(&self, validation: &mut Validation) {
        checks::paths(validation, "paths", &self.paths);
        let (advected, flows) = (self.advection.is_some(), self.navier_stokes.is_some());
        let given = !self.paths.is_empty();
        let help = "name some, or set `advection` or `navier_stokes`";
        validation.check(given || advected || flows, "paths", "files or folders", "none", help);
        let expected = "either `paths` or `advection`";
        validation.check_together(!(given && advected), &["paths"], "advection", expected, "both", "drop one");
        let (others, expected) = (&["paths", "advection"], "no `paths` and no `advection`");
        let alone = !(flows && (given || advected));
        validation.check_together(alone, others, "navier_stokes", expected, "several", "drop one");
        if let Some(advection) = &self.advection {
            validation.extend_below("advection", advection.validate());
        }
        if let Some(flows) = &self.navier_stokes {
            validation.extend_below("navier_stokes", flows.validate());
        }
        let axes = self.axes.as_deref().unwrap_or("tchw");
        let expected = "letters of n (trajectories), t (time), c (channels), h and w, each once, h and w among them";
        validation.check(Axes::of(axes).is_some(), "axes", expected, axes, "write the order of the axes, such as thwc");
    }

    fn check_super_resolution(&self, validation: &mut Validation) {
        let (factor, help) = (self.sample_factor, "write how many times finer the result is, such as 4");
        validation.check((1..=64).contains(&factor), "sample_factor", "1 (no change) to 64", factor, help);
        let one = self.input_days == 1 && self.predict_days == 1;
        let (found, expected) =
            (format!("{} and {}", self.input_days, self.predict_days), "1 for super-resolution, both");
        let help = "write `input_days: 1` and `predict_days: 1`, or drop `sample_factor`";
        let days = &["predict_days", "sample_factor"];
        validation.check_together(factor <= 1 || one, days, "input_days", expected, found, help);
        let scores = !self.pointwise || self.normalize == Normalize::ZScore;
        let (expected, help) = ("`normalize: z_score`", "write `normalize: z_score`, or drop `pointwise`");
        validation.check_together(scores, &["normalize"], "pointwise", expected, format!("{:?}", self.normalize), help);
    }

    fn check_placement(&self, validation: &mut Validation) {
        for (key, given) in [("roll", self.roll), ("rotate90", self.rotate90)] {
            let (expected, help) = ("no statistics of each place", "drop `pointwise`, or this");
            validation.check_together(
                !(given && self.pointwise),
                &["pointwise"],
                key,
                expected,
                "pointwise: true",
                help,
            );
        }
        let square = self.size().is_none_or(|[height, width]| height == width);
        let (found, with) = (format!("{:?}", self.size().unwrap_or_default()), &["shape", "advection.shape"]);
        let help = "make the fields square, or leave it out";
        validation.check_together(square || !self.rotate90, with, "rotate90", "square fields", found, help);
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
            axes: Some("thh".into()),
            navier_stokes: Some(NavierStokesConfig { size: 0, ..NavierStokesConfig::default() }),
            sample_factor: 4,
            pointwise: true,
            roll: true,
            rotate90: true,
            normalize: Normalize::MinMax,
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
            "navier_stokes",
            "advection.steps",
            "advection.shape",
            "advection.speed",
            "advection.turn_steps",
            "advection.forcing",
            "navier_stokes.size",
            "axes",
            "input_days",
            "predict_days",
            "use_channels",
            "target_channel",
            "input_days",
            "pointwise",
            "downsample",
            "roll",
            "rotate90",
            "rotate90",
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

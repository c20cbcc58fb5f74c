//! `leanburn predict`.

use std::path::Path;

use clap::Args;
use leanburn_data::Format;
use leanburn_systems::SystemError;

use super::files::{Files, run_all};
use super::trained::{ModelArguments, other_system};
use crate::error::Result;

/// `leanburn predict`: of each file of fields, `[time, channels, height, width]` or with the axes of the training files, those of the days
/// after its last ones, in its units; of an operator that refines the grid, each of its fields on the fine grid. An operator takes fields of
/// any grid, of the one that it was trained on or of a finer one.
#[derive(Debug, Args)]
pub struct Predict {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
    /// Go on from what was predicted, so many times in all: days that were predicted are seen as if they were known. For models that
    /// predict the one channel that they see.
    #[arg(long, default_value_t = 1, value_name = "N")]
    steps: usize,
}

impl Predict {
    pub(super) fn run(self) -> Result<()> {
        let jobs = self.files.jobs(&self.model, Some(".npy"))?;
        jobs.iter().try_for_each(|job| check_format(&job.out))?;
        let (config, name, device) = self.model.config()?;
        let Some(predictor) = config.predictor(&name, &self.model.weights, &device)? else {
            return Err(other_system(&config, name, "forecaster` or `operator", "only these predict fields"));
        };
        run_all(jobs, |job| {
            let fields = predictor.read(&job.input)?;
            let predicted = predictor.predict(&fields, self.steps).map_err(|error| named(error, &job.input))?;
            job.output.write_with(|path| predicted.write(path))?;
            let [days, _, height, width] = predicted.shape();
            Ok(format!("{days} x {height} x {width}"))
        })
    }
}

/// The error of fields that were read from a file.
fn named(error: SystemError, path: &Path) -> SystemError {
    match error {
        SystemError::Data(error) => error.at(path).into(),
        SystemError::Input { subject, expected, found, remedy } => {
            SystemError::Input { subject: format!("{}: {subject}", path.display()), expected, found, remedy }
        }
        error => error,
    }
}

/// Rejects the name of a file that cannot hold fields, before anything is computed.
fn check_format(out: &Path) -> Result<()> {
    match Format::of(out)? {
        Format::Numpy => Ok(()),
        _ => Err(SystemError::Input {
            subject: out.display().to_string(),
            expected: "a name that ends in .npy".into(),
            found: "that of another kind of file".into(),
            remedy: "fields are written as NumPy's arrays, [time, channels, height, width]".into(),
        }
        .into()),
    }
}

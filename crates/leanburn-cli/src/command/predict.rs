//! `leanburn predict`.

use std::path::Path;

use clap::Args;
use leanburn_data::{Format, Sequence};
use leanburn_systems::forecaster::FieldForecaster;
use leanburn_systems::{SystemError, SystemSection};

use super::files::{Files, run_all};
use super::trained::{ModelArguments, other_system};
use crate::error::Result;

/// `leanburn predict`: of each file of fields, `[time, channels, height, width]`, those of the days after its last ones, in its units.
#[derive(Debug, Args)]
pub struct Predict {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
}

impl Predict {
    pub(super) fn run(self) -> Result<()> {
        let jobs = self.files.jobs(&self.model, Some(".npy"))?;
        jobs.iter().try_for_each(|job| check_format(&job.out))?;
        let (config, name, device) = self.model.config()?;
        let SystemSection::Forecaster(section) = &config.system else {
            return Err(other_system(&config, name, "forecaster", "only forecasters predict fields"));
        };
        let forecaster = FieldForecaster::load(section, &config.context(&name), &self.model.weights, &device)?;
        run_all(jobs, |job| {
            let forecast =
                forecaster.predict(&Sequence::read(&job.input)?).map_err(|error| named(error, &job.input))?;
            job.output.write_with(|path| forecast.write(path))?;
            let [days, _, height, width] = forecast.shape();
            Ok(format!("{days} x {height} x {width}"))
        })
    }
}

/// The error of fields that were read from a file.
fn named(error: SystemError, path: &Path) -> SystemError {
    match error {
        SystemError::Data(error) => error.at(path).into(),
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

//! The file of a run that says what its data was normalized by.

use std::fs;
use std::path::Path;

use leanburn_common::atomic;
use leanburn_data::Intensity;

use crate::error::{Result, SystemError};

/// Its name.
pub(crate) const FILE: &str = "normalization.json";

/// Writes it.
///
/// # Errors
///
/// [`SystemError::Write`].
pub(crate) fn write(path: &Path, channels: &[Intensity]) -> Result<()> {
    let text = serde_json::to_vec_pretty(channels).expect("numbers serialise");
    atomic::write(path, &text).map_err(SystemError::writing(path))
}

/// What lies beside weights: what the channels of their data were normalized by.
///
/// # Errors
///
/// [`SystemError::Input`] if it is not there, or is something else.
pub(crate) fn beside(weights: &Path) -> Result<Vec<Intensity>> {
    let path = weights.with_file_name(FILE);
    let read = fs::read(&path).map_err(|error| error.to_string());
    let read = read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
    read.map_err(|found| SystemError::Input {
        subject: path.display().to_string(),
        expected: "what the data was normalized by in training, a scale and an offset a channel".into(),
        found,
        remedy: "name the weights in the run's folder; a run of an older version writes the file with `train --resume`"
            .into(),
    })
}

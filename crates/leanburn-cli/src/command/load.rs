//! Reading the configuration that a command is about.

use std::path::{Path, PathBuf};

use leanburn_systems::guide_config::GuideConfig;
use leanburn_systems::{Config, SystemError};

use crate::console::print_stderr;
use crate::error::Result;

/// Reads a configuration of ours, or a guide's if its system can be built; the error names other known kinds.
pub(super) fn load(path: &Path, set: &[String]) -> Result<Config> {
    match GuideConfig::load(path) {
        Ok(guide) if !guide.kind.is_modelled() => Err(SystemError::Input {
            subject: path.display().to_string(),
            expected: "a configuration of an autoencoder, a forecaster or an operator".into(),
            found: format!("{}; not modelled yet: {}", guide.kind.describe(), guide.not_modelled.join(", ")),
            remedy: format!("`leanburn calc --config {}` estimates it by the rule of thumb", path.display()),
        }
        .into()),
        _ => {
            let mut config = Config::load(path, set)?;
            config.resolve_device();
            print_notes(&config);
            Ok(config)
        }
    }
}

/// Says what of the file of a guide is left out.
pub(super) fn print_notes(config: &Config) {
    config.notes.iter().for_each(|note| print_stderr(format_args!("note: {note}")));
}

/// The files that planning reads, none of which an output may replace.
pub(super) fn inputs(path: &Path, config: &Config) -> Vec<PathBuf> {
    let mut inputs = config.data_files();
    inputs.push(path.to_path_buf());
    inputs
}

//! Reading the configuration that a command is about.

use std::path::{Path, PathBuf};

use leanburn_systems::guide_config::GuideConfig;
use leanburn_systems::{Config, SystemError, SystemSection};
use leanburn_train::Group;

use crate::console::print_stderr;
use crate::error::Result;

/// Reads a configuration, with the device that this machine would take.
pub(super) fn load(path: &Path, set: &[String]) -> Result<Config> {
    let mut config = read(path, set)?;
    config.resolve_device();
    Ok(config)
}

/// Reads a configuration of ours, or a guide's if its system can be built; the error names other known kinds.
pub(super) fn read(path: &Path, set: &[String]) -> Result<Config> {
    let config = Config::load(path, set).map_err(|error| match GuideConfig::load(path) {
        Ok(guide) if !guide.kind.is_modelled() => SystemError::Input {
            subject: path.display().to_string(),
            expected: "a configuration that `leanburn train` takes".into(),
            found: format!("{}; not modelled yet: {}", guide.kind.describe(), guide.not_modelled.join(", ")),
            remedy: format!("`leanburn calc --config {}` estimates it by the rule of thumb", path.display()),
        },
        _ => error.into(),
    })?;
    print_notes(&config);
    Ok(config)
}

/// Says what of the file of a guide is left out.
pub(super) fn print_notes(config: &Config) {
    config.notes.iter().for_each(|note| print_stderr(format_args!("note: {note}")));
}

/// Says where several ranks train a codebook on the micro-batches of one.
pub(super) fn print_codebook_note(config: &Config, group: &Group) {
    let has_codebook = match &config.system {
        SystemSection::VqVae(_) => true,
        SystemSection::Vae3d(section) => section.codebook.is_some(),
        _ => false,
    };
    if has_codebook && !config.training().sync_batch_norm && !group.is_alone() && group.leads() {
        let key = format!("{}.training.sync_batch_norm", config.system_name());
        print_stderr(format_args!(
            "note: the codebook follows the micro-batches of rank 0 alone; with `--set {key}=true` it follows those of all ranks"
        ));
    }
}

/// The files that planning reads, none of which an output may replace.
pub(super) fn inputs(path: &Path, config: &Config) -> Vec<PathBuf> {
    let mut inputs = config.data_files();
    inputs.push(path.to_path_buf());
    inputs
}

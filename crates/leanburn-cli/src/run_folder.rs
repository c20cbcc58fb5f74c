//! The folder of a run: what lies where, and whether a run may begin in it.

use std::fs;
use std::path::{Path, PathBuf};

use leanburn_train::CheckpointStore;

use crate::config::Config;
use crate::error::{CommandError, Result};
use crate::report::write_atomic;

/// Files and folders of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// Keys that may change when a run goes on: they do not touch what is computed up to where it stood.
const MAY_CHANGE: [&str; 6] =
    ["max_steps", "val_interval", "visualize_interval", "checkpoint_interval", "keep_checkpoints", "num_workers"];

impl RunFolder {
    /// The folder of a run of the configuration at `config`: `out` if given, else `runs/<name>`.
    pub fn locate(config: &Path, out: Option<&Path>) -> Self {
        let name = config.file_stem().unwrap_or_default();
        Self { path: out.map_or_else(|| Path::new("runs").join(name), Path::to_path_buf) }
    }

    /// Begins a run, or goes on with one if `resume` is set.
    ///
    /// # Errors
    ///
    /// [`CommandError::RunFolder`] if the folder cannot be written to, holds a run that was not asked for, or holds
    /// one of another configuration.
    pub fn open(&self, config: &Config, resume: bool) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(|error| self.refuse(error, "choose another folder with --out"))?;
        let yaml = config.to_yaml();
        match fs::read_to_string(self.config()) {
            Ok(there) if resume => return self.compare(&there, &yaml),
            Ok(_) => {
                let remedy = "go on with it by --resume, or choose another folder by --out";
                return Err(self.refuse("there is a run in it already", remedy));
            }
            Err(_) => {}
        }
        write_atomic(&self.config(), yaml.as_bytes())
            .map_err(|error| self.refuse(error, "choose another folder with --out, or make space"))
    }

    fn compare(&self, there: &str, here: &str) -> Result<()> {
        let lines = |text: &str| -> Vec<String> {
            let free = |line: &&str| !MAY_CHANGE.iter().any(|key| line.trim_start().starts_with(&format!("{key}:")));
            text.lines().filter(free).map(str::to_string).collect()
        };
        let (there, here) = (lines(there), lines(here));
        let differing = there.iter().zip(&here).find(|(there, here)| there != here);
        match differing {
            None if there.len() == here.len() => Ok(()),
            difference => {
                let (was, is) = difference.map_or(("", ""), |(was, is)| (was.trim(), is.trim()));
                let reason = format!("its run has `{was}` where the configuration now has `{is}`");
                Err(self.refuse(reason, "resume with the configuration of the run, or start another with --out"))
            }
        }
    }

    fn refuse(&self, reason: impl ToString, remedy: &str) -> CommandError {
        CommandError::RunFolder { path: self.path.clone(), reason: reason.to_string(), remedy: remedy.to_string() }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration with all defaults filled in.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.yaml")
    }

    /// The record of all steps.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// TensorBoard's event files.
    pub fn events(&self) -> PathBuf {
        self.path.join("events")
    }

    /// The picture of a step.
    pub fn picture(&self, step: u64) -> PathBuf {
        self.path.join("pictures").join(format!("step-{step:08}.png"))
    }

    /// The trained weights in MONAI's names.
    pub fn weights(&self) -> PathBuf {
        self.path.join("weights.safetensors")
    }

    /// The discriminator's weights in MONAI's names.
    pub fn discriminator_weights(&self) -> PathBuf {
        self.path.join("discriminator.safetensors")
    }

    /// The page for people.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The checkpoints, of which `keep` stay.
    pub fn checkpoints(&self, keep: usize) -> CheckpointStore {
        CheckpointStore::new(self.path.join("checkpoints"), keep)
    }
}

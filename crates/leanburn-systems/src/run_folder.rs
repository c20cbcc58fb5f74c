//! The folder of a run: what lies where, and whether a run may begin in it.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use leanburn_common::atomic;
use leanburn_train::CheckpointStore;
use serde_json::Value;

use crate::config::Config;
use crate::error::{Result, SystemError};

const CHECKPOINTS: &str = "checkpoints";
/// Held by the process that trains.
const LOCK: &str = ".lock";

/// Files and folders of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// Keys that may change when a run goes on, those of the system's `training` without the system: they do not touch what is
/// computed, or only in the last digits on another device. What a step-down changes is among them.
const MAY_CHANGE: [&str; 15] = [
    "training.checkpoint_interval",
    "training.keep_checkpoints",
    "training.max_steps",
    "training.recompute",
    "training.use_gradient_checkpointing",
    "training.val_interval",
    "training.visualize_interval",
    "data.cache_rate",
    "data.num_workers",
    "data.prefetch",
    "device.allocator",
    "device.memory_limit",
    "device.name",
    "sequence.num_workers",
    "sequence.prefetch",
];

impl RunFolder {
    /// The folder at a path, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder of a run of the configuration at `config`: `out` if given, else `runs/<name>`.
    pub fn locate(config: &Path, out: Option<&Path>) -> Self {
        let name = config.file_stem().unwrap_or_default();
        Self { path: out.map_or_else(|| Path::new("runs").join(name), Path::to_path_buf) }
    }

    /// Checks that a run may begin here or, if `resume` is set, go on; writes nothing.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] if there is a run that was not asked for, one of another configuration, or no run but a file
    /// that a run would replace.
    pub fn check(&self, config: &Config, resume: bool) -> Result<()> {
        let traces = [self.config(), self.metrics(), self.path.join(CHECKPOINTS)];
        let is_run = traces.iter().any(|path| path.exists());
        match fs::read_to_string(self.config()) {
            _ if !resume && is_run => Err(self.reject(
                "there is a run in it already",
                "go on with it by --resume, or choose another folder by --out",
            )),
            Ok(there) => self.compare(&there, config),
            Err(error) if error.kind() == ErrorKind::NotFound && is_run => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => self.check_other_files(),
            Err(error) => Err(self.reject(format!("config.yaml: {error}"), "choose another folder with --out")),
        }
    }

    /// Rejects a folder without a run if it has a file by the name of one that a run writes.
    fn check_other_files(&self) -> Result<()> {
        let written = [self.plan(), self.weights(), self.discriminator_weights(), self.report()];
        match written.iter().find(|path| path.exists()) {
            Some(path) => {
                let name = path.file_name().unwrap_or_default().display();
                let reason = format!("there is no run in it, but a {name} that a run would replace");
                Err(self.reject(reason, "choose another folder with --out, or move the file"))
            }
            None => Ok(()),
        }
    }

    /// Makes the folder, locks it, and writes the configuration into it. The lock goes with the file that is given, or
    /// with the process, however that ends.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] if it cannot be written to, or another process is training in it.
    pub fn begin(&self, config: &Config) -> Result<File> {
        let reject = |error: std::io::Error| self.reject(error, "choose another folder with --out, or make space");
        fs::create_dir_all(&self.path).map_err(reject)?;
        let lock = File::create(self.path.join(LOCK)).map_err(reject)?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            let remedy = "wait for it or stop it, or choose another folder by --out";
            return Err(self.reject("another process is training in it", remedy));
        }
        atomic::write(&self.config(), config.to_yaml().as_bytes()).map_err(reject)?;
        Ok(lock)
    }

    /// Compares the configuration of the run, `there`, with the one it is to go on with.
    fn compare(&self, there: &str, config: &Config) -> Result<()> {
        let remedy = "resume with the configuration of the run, or start another with --out";
        let [was, is] = match [there, &config.to_yaml()].map(settings) {
            [Ok(was), Ok(is)] => [was, is],
            [Err(error), _] | [_, Err(error)] => {
                return Err(self.reject(format!("its config.yaml cannot be read: {error}"), remedy));
            }
        };
        // the section `training` stands in that of the system
        let is_knob = |key: &str| config.knob_names().iter().any(|knob| key.ends_with(&format!(".training.{knob}")));
        let may =
            |key: &str| is_knob(key) || MAY_CHANGE.iter().any(|may| key == *may || key.ends_with(&format!(".{may}")));
        let differs = |key: &&String| was.get(*key) != is.get(*key) && !may(key);
        let differences: Vec<String> = was
            .keys()
            .chain(is.keys().filter(|key| !was.contains_key(*key)))
            .filter(differs)
            .map(|key| {
                let [was, is] = [&was, &is].map(|settings| settings.get(key).map_or("nothing", String::as_str));
                format!("`{key}` is {was} in its run, and {is} in the configuration")
            })
            .collect();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(self.reject(differences.join("; "), remedy)),
        }
    }

    fn reject(&self, reason: impl ToString, remedy: &str) -> SystemError {
        SystemError::RunFolder { path: self.path.clone(), reason: reason.to_string(), remedy: remedy.to_string() }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration with all defaults filled in.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.yaml")
    }

    /// What the step was planned to hold, and what it held.
    pub fn plan(&self) -> PathBuf {
        self.path.join("plan.json")
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

    /// The checkpoint that a run goes on from, and its step: the newest, or the newest that is whole.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] if a whole one is wanted and all are damaged.
    pub fn newest_checkpoint(&self, must_be_whole: bool) -> Result<Option<(u64, PathBuf)>> {
        let store = self.checkpoints(1);
        match store.latest() {
            Some(_) if must_be_whole => store.latest_whole().map(Some).ok_or_else(|| {
                self.reject("every checkpoint of its run is damaged", "train anew in another folder with --out")
            }),
            newest => Ok(newest),
        }
    }

    /// The checkpoints, of which `keep` stay.
    pub fn checkpoints(&self, keep: usize) -> CheckpointStore {
        CheckpointStore::new(self.path.join(CHECKPOINTS), keep)
    }
}

/// Each key of a configuration, with its sections, and its value as text.
fn settings(yaml: &str) -> std::result::Result<BTreeMap<String, String>, serde_saphyr::Error> {
    fn collect(path: &str, value: Value, settings: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(section) => section.into_iter().for_each(|(key, value)| {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                collect(&path, value, settings);
            }),
            value => drop(settings.insert(path.to_string(), value.to_string())),
        }
    }
    let mut settings = BTreeMap::new();
    collect("", serde_saphyr::from_str(yaml)?, &mut settings);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_process_at_a_time() {
        let text = "data: {phantom: {count: 2}}\nautoencoder: {num_channels: [32]}\n";
        let config = Config::parse(text, "test", &[]).unwrap();
        let place = tempfile::tempdir().unwrap();
        let folder = RunFolder::locate(Path::new("x.yaml"), Some(place.path()));
        let lock = folder.begin(&config).unwrap();
        let message = folder.begin(&config).unwrap_err().to_string();
        assert!(message.contains("another process"), "{message}");
        drop(lock);
        folder.begin(&config).unwrap();
    }

    #[test]
    fn a_run_goes_on_with_what_a_step_down_changes() {
        let config = |set: &str| {
            let text = "data: {phantom: {count: 2}}\nautoencoder: {num_channels: [32]}\n";
            Config::parse(text, "test", &[set.to_string()]).unwrap()
        };
        let place = tempfile::tempdir().unwrap();
        let folder = RunFolder::locate(Path::new("x.yaml"), Some(place.path()));
        drop(folder.begin(&config("seed=1")).unwrap());
        for changed in ["attention_block=16", "recompute=[encoder.level_0]", "use_gradient_checkpointing=true"] {
            let set = format!("autoencoder.training.{changed}");
            let mut config = config(&set);
            config.seed = 1;
            folder.check(&config, true).unwrap_or_else(|error| panic!("{set}: {error}"));
        }
        assert!(folder.check(&config("seed=2"), true).is_err());
    }
}

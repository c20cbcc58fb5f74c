//! The folder of a run: what lies where, and whether a run may begin in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use leanburn_common::atomic;
use leanburn_data::Intensity;
use leanburn_train::{CheckpointStore, TrainError};
use serde_json::Value;

use crate::config::Config;
use crate::error::{Result, SystemError};
use crate::normalization;
use crate::weight_source::WEIGHTS;

const CHECKPOINTS: &str = "checkpoints";
/// Held by the process that trains.
const LOCK: &str = ".lock";

/// Files and folders of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// Keys that may change when a run goes on, beside those of the system's section `training`: they do not touch what is computed, or
/// only in the last digits on another device.
const MAY_CHANGE: [&str; 10] = [
    "data.cache_rate",
    "data.num_workers",
    "data.prefetch",
    "device.allocator",
    "device.memory_limit",
    "device.name",
    "scenes.num_workers",
    "scenes.prefetch",
    "sequence.num_workers",
    "sequence.prefetch",
];

/// Keys of the system's section `training` that may not: what a checkpoint holds depends on them, or its place in the data. (The first two
/// may where their product stays: it is the items of a step that count.) The others say how the run learns from here on: rates and schedule, losses and their weights, intervals, what is recomputed.
const FIXED_IN_TRAINING: [&str; 5] =
    ["batch_size", "gradient_accumulation_steps", "optimizer", "ema_decay", "discriminator"];

/// Keys of the section `training` whose product is the items of a step.
const SPLIT: [&str; 2] = ["batch_size", "gradient_accumulation_steps"];

/// Keys below those that may change nevertheless.
const MAY_CHANGE_BELOW: [&str; 1] = ["discriminator.learning_rate"];

/// A key whose value changes when a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The key, with its sections.
    pub key: String,
    /// The value until now, as text; `nothing` where the key was not there.
    pub old: String,
    /// The value from here on.
    pub new: String,
}

impl fmt::Display for KeyChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} -> {}", self.key, self.old, self.new)
    }
}

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

    /// Checks that a run may begin here or, if `resume` is set, go on; writes nothing. Gives the keys that change as it goes on.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] if there is a run that was not asked for, one with other values of keys that may not change, or no
    /// run but a file that a run would replace.
    pub fn check(&self, config: &Config, resume: bool) -> Result<Vec<KeyChange>> {
        let traces = [self.config(), self.metrics(), self.path.join(CHECKPOINTS)];
        let is_run = traces.iter().any(|path| path.exists());
        match fs::read_to_string(self.config()) {
            _ if !resume && is_run => Err(self.reject(
                "there is a run in it already",
                "go on with it by --resume, or choose another folder by --out",
            )),
            Ok(there) => self.compare(&there, config),
            Err(error) if error.kind() == ErrorKind::NotFound && is_run => Ok(Vec::new()),
            Err(error) if error.kind() == ErrorKind::NotFound => self.check_other_files().map(|()| Vec::new()),
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
    fn compare(&self, there: &str, config: &Config) -> Result<Vec<KeyChange>> {
        let [was, is] = match [there, &config.to_yaml()].map(settings) {
            [Ok(was), Ok(is)] => [was, is],
            [Err(error), _] | [_, Err(error)] => {
                let remedy = "put back the configuration of the run, or start another with --out";
                return Err(self.reject(format!("its config.yaml cannot be read: {error}"), remedy));
            }
        };
        let value = |settings: &BTreeMap<String, String>, key: &String| {
            settings.get(key).cloned().unwrap_or_else(|| "nothing".to_string())
        };
        let keys = was.keys().chain(is.keys().filter(|key| !was.contains_key(*key)));
        let changes = keys.map(|key| KeyChange { key: key.clone(), old: value(&was, key), new: value(&is, key) });
        let training = format!("{}.training.", config.system_name());
        let items = |settings: &BTreeMap<String, String>| -> Option<u128> {
            let size = |key: &str| settings.get(&format!("{training}{key}"))?.parse::<u64>().ok();
            Some(u128::from(size(SPLIT[0])?) * u128::from(size(SPLIT[1])?))
        };
        let is_split = items(&was).is_some() && items(&was) == items(&is);
        let (may, may_not): (Vec<_>, Vec<_>) = changes.filter(|change| change.old != change.new).partition(|change| {
            let key = change.key.strip_prefix(&training);
            may_change(&change.key, &training) || is_split && key.is_some_and(|key| SPLIT.contains(&key))
        });
        if may_not.is_empty() {
            return Ok(may);
        }
        let reasons: Vec<String> = may_not
            .iter()
            .map(|KeyChange { key, old, new }| format!("`{key}` is {old} in its run, and {new} in the configuration"))
            .collect();
        let remedy = format!(
            "resume with the run's values of these keys, or start another run from its weights with --from {} and --out",
            self.path.display()
        );
        Err(self.reject(reasons.join("; "), &remedy))
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
        self.path.join(WEIGHTS)
    }

    /// The discriminator's weights in MONAI's names.
    pub fn discriminator_weights(&self) -> PathBuf {
        self.path.join("discriminator.safetensors")
    }

    /// The files that the run is trained on, in their order.
    pub fn data(&self) -> PathBuf {
        self.path.join("data.json")
    }

    /// Checks that a run that goes on has the files that it began with: the split, and which sample comes when, depend on them.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] with the files that have come or gone.
    pub(crate) fn check_data(&self, names: &[String]) -> Result<()> {
        let Ok(text) = fs::read(self.data()) else { return Ok(()) }; // a new run, or one of an older version
        let Ok(began) = serde_json::from_slice::<Vec<String>>(&text) else { return Ok(()) };
        // records of older versions have no scenes, and volumes without their labels
        let is_same =
            |(began, name): (&String, &String)| began == name || name.starts_with(&format!("{began} with labels "));
        if began.is_empty() || (began.len() == names.len() && began.iter().zip(names).all(is_same)) {
            return Ok(());
        }
        let missing = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|name| !those.contains(name)).cloned().collect()
        };
        let list = |what: &str, names: Vec<String>| match names.len() {
            0 => None,
            1..=3 => Some(format!("{what} {}", names.join(", "))),
            more => Some(format!("{what} {} and {} more", names[..3].join(", "), more - 3)),
        };
        let [come, gone] = [missing(names, &began), missing(&began, names)];
        let changes: Vec<String> = [list("new are", come), list("gone are", gone)].into_iter().flatten().collect();
        let changes = if changes.is_empty() { "they lie in another order".to_string() } else { changes.join("; ") };
        let remedy = format!(
            "put the files as they were, or start another run on the new ones from the weights, with --from {} and --out",
            self.path.display()
        );
        Err(self.reject(format!("its data are other files than those it began with: {changes}"), &remedy))
    }

    /// Writes the files that a run begins with.
    ///
    /// # Errors
    ///
    /// [`SystemError::Write`].
    pub(crate) fn write_data(&self, names: &[String]) -> Result<()> {
        let path = self.data();
        let text = serde_json::to_vec_pretty(names).expect("text serialises");
        atomic::write(&path, &text).map_err(SystemError::writing(&path))
    }

    /// What the channels of the data were normalized by, of systems whose models need it to be used.
    pub fn normalization(&self) -> PathBuf {
        self.path.join(normalization::FILE)
    }

    /// Writes what the channels of the data were normalized by.
    ///
    /// # Errors
    ///
    /// [`SystemError::Write`].
    pub(crate) fn write_normalization(&self, channels: &[Intensity]) -> Result<()> {
        normalization::write(&self.normalization(), channels)
    }

    /// The folder of the weights that were the best by `best_metric`.
    pub fn best(&self) -> PathBuf {
        self.path.join("best")
    }

    /// The folder of the weights after a step, as `weights_interval` makes it.
    pub fn weights_after(&self, step: u64) -> PathBuf {
        self.path.join("weights").join(format!("step-{step:08}"))
    }

    /// The page for people.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The checkpoint that a run goes on from, and its step: the newest, or the newest that is whole.
    ///
    /// # Errors
    ///
    /// [`SystemError::RunFolder`] if a whole one is wanted and all are damaged, and where the run has weights, which are written with each
    /// checkpoint, and no checkpoint is found.
    pub fn newest_checkpoint(&self, must_be_whole: bool) -> Result<Option<(u64, PathBuf)>> {
        let store = self.checkpoints(1);
        match store.latest() {
            None if self.weights().exists() => Err(self.reject(
                format!(
                    "its run was trained and has weights, but {} has no checkpoint",
                    self.path.join(CHECKPOINTS).display()
                ),
                "put the checkpoints back, or start another run from these weights with --from and --out",
            )),
            Some(_) if must_be_whole => store.latest_whole().map(Some).ok_or_else(|| {
                self.reject("every checkpoint of its run is damaged", "train anew in another folder with --out")
            }),
            newest => Ok(newest),
        }
    }

    /// A checkpoint of this run at a path, and its step.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if it is none of this run's, which are then named.
    pub fn checkpoint(&self, path: &Path) -> Result<(u64, PathBuf)> {
        let all = self.checkpoints(1).all();
        let is_it = |(_, there): &&(u64, PathBuf)| {
            let [asked, there] = [path, there].map(|path| path.canonicalize().ok());
            asked.is_some() && asked == there
        };
        if let Some(found) = all.iter().find(is_it) {
            return Ok(found.clone());
        }
        let names: Vec<String> = all.iter().map(|(_, there)| there.display().to_string()).collect();
        let folder = self.path.join(CHECKPOINTS);
        Err(SystemError::Input {
            subject: path.display().to_string(),
            expected: match names.is_empty() {
                true => format!("a checkpoint of this run, and there is none in {}", folder.display()),
                false => format!("a checkpoint of this run: {}", names.join(", ")),
            },
            found: if path.exists() { "something else" } else { "nothing" }.into(),
            remedy: "name one of this run, or start another run from its weights with --from".into(),
        })
    }

    /// The error of a checkpoint of this run that could not be gone on from; of a damaged one it offers the one before.
    pub(crate) fn not_resumed(&self, step: u64, error: TrainError) -> SystemError {
        match error {
            TrainError::Checkpoint { action: "read", .. } => {
                let before = self.checkpoints(1).latest_whole_before(step).map(|(_, path)| path);
                SystemError::DamagedCheckpoint { damage: error, before }
            }
            error => error.into(),
        }
    }

    /// The checkpoints, of which `keep` stay.
    pub fn checkpoints(&self, keep: usize) -> CheckpointStore {
        CheckpointStore::new(self.path.join(CHECKPOINTS), keep)
    }
}

/// Whether a key may change when a run goes on; `training` is the section of its system's training, dot included.
fn may_change(key: &str, training: &str) -> bool {
    let is_below = |key: &str, section: &str| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
    match key.strip_prefix(training) {
        None => MAY_CHANGE.contains(&key),
        Some(key) if MAY_CHANGE_BELOW.contains(&key) => true,
        Some(key) => !FIXED_IN_TRAINING.iter().any(|fixed| key == *fixed || is_below(key, fixed)),
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
    fn other_labels_are_noticed_and_older_records_are_taken() {
        let place = tempfile::tempdir().unwrap();
        let folder = RunFolder::locate(Path::new("x.yaml"), Some(place.path()));
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let names = list(&["a.nii with labels a_1.nii", "b.nii with labels b_1.nii"]);
        for sound in [&names[..], &[], &list(&["a.nii", "b.nii"])] {
            folder.write_data(sound).unwrap();
            folder.check_data(&names).unwrap_or_else(|error| panic!("{sound:?}: {error}"));
        }
        for (other, words) in [
            (&["a.nii with labels a_1.nii", "b.nii with labels b_2.nii"][..], "gone are b.nii with labels b_2.nii"),
            (&["a.nii"], "new are"),
            (&["a.nii", "c.nii"], "gone are a.nii, c.nii"),
        ] {
            folder.write_data(&list(other)).unwrap();
            let message = folder.check_data(&names).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
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
        let mut split = config("seed=1");
        let items = split.training().batch_size;
        (split.training_mut().batch_size, split.training_mut().gradient_accumulation_steps) = (1, items);
        assert_eq!(folder.check(&split, true).unwrap().len(), if items > 1 { 2 } else { 0 });
        split.training_mut().gradient_accumulation_steps = items + 1;
        let message = folder.check(&split, true).unwrap_err().to_string();
        assert!(message.contains("gradient_accumulation_steps"), "{message}");
        assert!(folder.check(&config("seed=2"), true).is_err());
    }
}

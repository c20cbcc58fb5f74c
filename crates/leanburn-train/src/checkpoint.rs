//! Checkpoints in a folder: whole or not there at all, the last few kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{TrainError, manifest};

/// A folder of checkpoints, one folder a step: `step-00000100`.
#[derive(Clone, Debug)]
pub struct CheckpointStore {
    folder: PathBuf,
    keep: usize,
}

impl CheckpointStore {
    /// The store in `folder`, which need not be there yet; `keep` newest checkpoints stay, at least one.
    pub fn new(folder: impl Into<PathBuf>, keep: usize) -> Self {
        Self { folder: folder.into(), keep: keep.max(1) }
    }

    /// Writes a checkpoint: `write` fills a temporary folder with files, which is then renamed.
    ///
    /// A whole checkpoint of the same step stays as it is, a damaged one is replaced.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`], or what `write` gives; older checkpoints are then as they were.
    pub fn save(&self, step: u64, write: impl FnOnce(&Path) -> Result<(), TrainError>) -> Result<PathBuf, TrainError> {
        let path = self.folder.join(format!("{PREFIX}{step:08}"));
        match manifest::verify(&path) {
            Ok(()) => return Ok(path), // a step has one state, whoever saved it first
            Err(_) if path.exists() => fs::remove_dir_all(&path).map_err(|error| TrainError::writing(&path, error))?,
            Err(_) => {}
        }
        fs::create_dir_all(&self.folder).map_err(|error| TrainError::writing(&self.folder, error))?;
        self.remove_unfinished();
        let temporary = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(&self.folder)
            .map_err(|error| TrainError::writing(&self.folder, error))?;
        write(temporary.path())?;
        manifest::write(temporary.path())?;
        sync_files(temporary.path()).map_err(|error| TrainError::writing(temporary.path(), error))?;
        fs::rename(temporary.path(), &path).map_err(|error| TrainError::writing(&path, error))?;
        let _ = temporary.keep(); // renamed: nothing to remove
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
        self.remove_older(step);
        Ok(path)
    }

    /// The newest checkpoint and its step.
    pub fn latest(&self) -> Option<(u64, PathBuf)> {
        self.all().pop()
    }

    /// The newest checkpoint that is whole, and its step. Reads every file of it.
    pub fn latest_whole(&self) -> Option<(u64, PathBuf)> {
        self.latest_whole_before(u64::MAX)
    }

    /// The newest checkpoint before a step that is whole, and its step. Reads every file of it.
    pub fn latest_whole_before(&self, step: u64) -> Option<(u64, PathBuf)> {
        self.all().into_iter().rev().find(|(found, path)| *found < step && manifest::verify(path).is_ok())
    }

    /// Whether a checkpoint lies at `path`, whole or damaged.
    pub fn is_checkpoint(path: &Path) -> bool {
        manifest::is_in(path)
    }

    /// Checks that the checkpoint at `path` is whole. Reads every file of it.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`] with the first file that is not as it was written.
    pub fn verify(path: &Path) -> Result<(), TrainError> {
        manifest::verify(path)
    }

    /// Sets the checkpoints after `step` aside, of a run that goes on from an earlier one: they are renamed to `aside-step-...` and
    /// are none of the run's any more. Gives their new paths.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`].
    pub fn set_aside_after(&self, step: u64) -> Result<Vec<PathBuf>, TrainError> {
        let later = self.all().into_iter().filter(|(found, _)| *found > step);
        let set_aside = |(found, path): (u64, PathBuf)| {
            let names = std::iter::successors(Some(String::from("aside-")), |prefix| Some(format!("aside-{prefix}")));
            let mut aside = names.map(|prefix| self.folder.join(format!("{prefix}{PREFIX}{found:08}")));
            let aside = aside.find(|path| !path.exists()).expect("there are names without end");
            fs::rename(&path, &aside).map_err(|error| TrainError::writing(&path, error))?;
            Ok(aside)
        };
        later.map(set_aside).collect()
    }

    /// All checkpoints, oldest first.
    pub fn all(&self) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let step = entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
                entry.path().is_dir().then(|| (step, entry.path()))
            })
            .collect();
        found.sort();
        found
    }

    /// Keeps the newest up to `step`; later ones, of a run that had come farther, are not this run's to remove.
    fn remove_older(&self, step: u64) {
        let past: Vec<_> = self.all().into_iter().filter(|(found, _)| *found <= step).collect();
        let old = past.len().saturating_sub(self.keep);
        past.iter().take(old).for_each(|(_, path)| drop(fs::remove_dir_all(path)));
    }

    /// Removes what a killed process left.
    fn remove_unfinished(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

const PREFIX: &str = "step-";
const UNFINISHED: &str = ".unfinished-";

fn sync_files(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_step(store: &CheckpointStore, step: u64) -> Result<PathBuf, TrainError> {
        store.save(step, |folder| {
            fs::write(folder.join("weights"), step.to_string()).map_err(|error| TrainError::writing(folder, error))
        })
    }

    #[test]
    fn keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path().join("checkpoints"), 2);
        assert!(store.latest().is_none());
        for step in [9, 10, 100] {
            write_step(&store, step).unwrap();
        }
        let steps: Vec<u64> = store.all().into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [10, 100]);
        let (_, path) = store.latest().unwrap();
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "100");
    }

    #[test]
    fn a_failed_checkpoint_leaves_nothing_and_harms_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 2);
        write_step(&store, 1).unwrap();
        let failed = store.save(2, |path| {
            fs::write(path.join("weights"), "half").unwrap();
            Err(TrainError::writing(path, "disk full"))
        });
        assert!(failed.unwrap_err().to_string().contains("disk full"));
        assert_eq!(store.latest().unwrap().0, 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_left_is_not_a_checkpoint_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 2);
        fs::create_dir(folder.path().join(".unfinished-x")).unwrap();
        fs::write(folder.path().join(".unfinished-x/weights"), "half").unwrap();
        assert!(store.latest().is_none());
        write_step(&store, 3).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_step_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 3);
        write_step(&store, 5).unwrap();
        write_step(&store, 5).unwrap();
        assert_eq!(store.all().len(), 1);
    }

    #[test]
    fn a_damaged_step_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 3);
        let path = write_step(&store, 5).unwrap();
        fs::write(path.join("weights"), "").unwrap();
        assert_eq!(write_step(&store, 5).unwrap(), path);
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "5");
    }

    #[test]
    fn the_newest_whole_one_is_not_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 3);
        let [first, second, third] = [1, 2, 3].map(|step| write_step(&store, step).unwrap());
        for (damaged, expected) in [(third, Some(2)), (first, Some(2)), (second, None)] {
            fs::write(damaged.join("weights"), "").unwrap();
            assert_eq!(store.latest_whole().map(|(step, _)| step), expected);
        }
        assert_eq!(store.latest().unwrap().0, 3);
    }

    #[test]
    fn later_checkpoints_are_set_aside_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 3);
        let set_aside = || {
            for step in [10, 20, 30] {
                write_step(&store, step).unwrap();
            }
            let aside = store.set_aside_after(10).unwrap();
            assert_eq!(store.latest().unwrap().0, 10);
            assert!(aside.iter().all(|path| CheckpointStore::verify(path).is_ok()));
            aside
        };
        let [first, second] = [set_aside(), set_aside()];
        assert!(first[0].ends_with("aside-step-00000020") && first.iter().all(|path| !second.contains(path)));
    }

    #[test]
    fn a_run_that_went_back_keeps_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 1);
        write_step(&store, 100).unwrap();
        assert!(write_step(&store, 10).unwrap().is_dir());
        write_step(&store, 20).unwrap();
        let steps: Vec<u64> = store.all().into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [20, 100]);
    }
}

//! The files of a learner in a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::ModuleRecord;

use crate::{LossScale, LossScaler, TrainError};

/// Where a learner's state is written: `<name>.weights.bpk` and the like.
pub(crate) struct LearnerFiles<'a> {
    /// The checkpoint.
    pub folder: &'a Path,
    /// Name of the learner.
    pub name: &'static str,
}

/// The weights in training.
pub(crate) const WEIGHTS: &str = "weights.bpk";
/// Their average.
pub(crate) const AVERAGE: &str = "average.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const SCALER: &str = "scaler.json";

impl LearnerFiles<'_> {
    fn path(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.name))
    }

    pub fn save_module<M: Module>(&self, what: &str, module: &M) -> Result<(), TrainError> {
        let path = self.path(what);
        // `valid` also settles running statistics; a record of the module itself lags behind by one forward
        module.valid().into_record().save(&path).map_err(|error| TrainError::writing(&path, error))
    }

    /// A module like `like`, on which nothing is changed, with the saved weights.
    pub fn load_module<M: Module>(&self, what: &str, like: M) -> Result<M, TrainError> {
        let path = self.path(what);
        let record = ModuleRecord::load(&path).map_err(|error| TrainError::reading(&path, error))?;
        like.try_load_record(record).map_err(|error| TrainError::mismatch(&path, error))
    }

    pub fn save_optimizer(&self, optimizer: &ModuleOptimizer) -> Result<(), TrainError> {
        let path = self.path(OPTIMIZER);
        optimizer.save(&path).map_err(|error| TrainError::writing(&path, error))
    }

    /// The optimizer with the saved states.
    pub fn load_optimizer(&self, fresh: ModuleOptimizer) -> Result<ModuleOptimizer, TrainError> {
        let path = self.path(OPTIMIZER);
        let record = OptimizerRecord::load(&path).map_err(|error| TrainError::reading(&path, error))?;
        let saved = record.len();
        let optimizer = fresh.load_record(record);
        match optimizer.to_record().len() {
            // Burn leaves out silently what it cannot use
            used if used != saved => {
                let reason = format!("{used} of the {saved} states there fit the optimizer here");
                Err(TrainError::mismatch(&path, reason))
            }
            _ => Ok(optimizer),
        }
    }

    pub fn save_scaler(&self, scaler: &LossScaler) -> Result<(), TrainError> {
        let path = self.path(SCALER);
        let text = serde_json::to_vec_pretty(scaler).expect("numbers serialise");
        fs::write(&path, text).map_err(|error| TrainError::writing(&path, error))
    }

    /// The saved scaler, which must be one of this configuration.
    pub fn load_scaler(&self, config: LossScale) -> Result<LossScaler, TrainError> {
        let path = self.path(SCALER);
        let text = fs::read(&path).map_err(|error| TrainError::reading(&path, error))?;
        let scaler: LossScaler = serde_json::from_slice(&text).map_err(|error| TrainError::reading(&path, error))?;
        match scaler.config() == config {
            true => Ok(scaler),
            false => Err(TrainError::mismatch(
                &path,
                format!("the loss scale is {:?} there and {config:?} here", scaler.config()),
            )),
        }
    }
}

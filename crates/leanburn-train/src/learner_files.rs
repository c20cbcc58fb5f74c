//! The files of a learner in a checkpoint.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The file of a learner's weights in a checkpoint, if it has any: of their average where there is one, as it is what is used.
pub fn trained_weights(checkpoint: &Path, learner: &'static str) -> Option<PathBuf> {
    let files = LearnerFiles { folder: checkpoint, name: learner };
    [AVERAGE, WEIGHTS].map(|what| files.path(what)).into_iter().find(|path| path.is_file())
}

/// The weights in training.
pub(crate) const WEIGHTS: &str = "weights.bpk";
/// Their average.
pub(crate) const AVERAGE: &str = "average.bpk";
/// The average that the loss compares with.
pub(crate) const TARGET: &str = "target.bpk";
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
        let load = AssertUnwindSafe(|| like.try_load_record(record));
        let loaded = catch_unwind(load).map_err(|_| TrainError::reading(&path, "it is no module's file"))?;
        loaded.map_err(|error| TrainError::mismatch(&path, error))
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
        let load = AssertUnwindSafe(|| fresh.load_record(record));
        // Burn panics on states without a parameter, and where a file cannot be read to its end
        let optimizer = catch_unwind(load).map_err(|_| TrainError::reading(&path, "it is no optimizer's file"))?;
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

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNormConfig, Linear, LinearConfig};
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::OptimizerConfig;

    fn layer() -> Linear {
        LinearConfig::new(2, 3).init(&Device::flex().autodiff())
    }

    /// An optimizer after one step, with states.
    fn optimizer() -> ModuleOptimizer {
        let (layer, mut optimizer) = (layer(), OptimizerConfig::default().init());
        let loss = layer.forward(Tensor::<2>::ones([1, 2], &Device::flex().autodiff())).sum();
        let gradients = leanburn_ops::backward(loss).take_module(&layer);
        optimizer.step(0.1, layer, gradients);
        optimizer
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let files = LearnerFiles { folder: folder.path(), name: "layer" };
        files.save_module(WEIGHTS, &layer()).unwrap();
        files.save_optimizer(&optimizer()).unwrap();
        let mut rejected = 0;
        for what in [WEIGHTS, OPTIMIZER] {
            let whole = fs::read(files.path(what)).unwrap();
            for at in 0..whole.len().min(800) {
                for flip in [0x01, 0x20, 0xff] {
                    let mut damaged = whole.clone();
                    damaged[at] ^= flip;
                    fs::write(files.path(what), damaged).unwrap();
                    let fresh = || OptimizerConfig::default().init();
                    rejected += match what {
                        WEIGHTS => u32::from(files.load_module(what, layer()).is_err()),
                        _ => u32::from(files.load_optimizer(fresh()).is_err()),
                    };
                }
            }
        }
        assert!(rejected > 500, "only {rejected}");
    }

    #[test]
    fn another_file_in_its_place_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let files = LearnerFiles { folder: folder.path(), name: "layer" };
        files.save_module(OPTIMIZER, &layer()).unwrap();
        let error = files.load_optimizer(OptimizerConfig::default().init()).err().unwrap().to_string();
        assert!(error.contains("layer.optimizer.bpk") && error.contains("0 of the 2 states"), "{error}");
        files.save_module(WEIGHTS, &LinearConfig::new(3, 3).init(&Device::flex())).unwrap();
        let error = files.load_module(WEIGHTS, layer()).unwrap_err().to_string();
        assert!(error.contains("layer.weights.bpk") && error.contains("shape mismatch"), "{error}");
    }

    #[test]
    fn running_statistics_are_written_without_delay() {
        let folder = tempfile::tempdir().unwrap();
        let files = LearnerFiles { folder: folder.path(), name: "norm" };
        let device = Device::flex().autodiff();
        let norm = || BatchNormConfig::new(1).with_momentum(1.0).init(&device);
        let moved = norm();
        moved.forward(Tensor::<5>::full([1, 1, 2, 2, 2], 8.0, &device));
        files.save_module(WEIGHTS, &moved).unwrap();
        let read = files.load_module(WEIGHTS, norm()).unwrap();
        assert_eq!(read.running_mean.value_sync().into_scalar::<f32>(), 8.0);
    }

    #[test]
    fn a_scale_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let files = LearnerFiles { folder: folder.path(), name: "layer" };
        let config = LossScale::Dynamic { initial: 1000.1, growth: 1.3, back_off: 0.7, growth_interval: 1 };
        let mut scaler = LossScaler::new(config);
        for step in 0..200 {
            scaler.update(step % 3 != 0);
            files.save_scaler(&scaler).unwrap();
            assert_eq!(files.load_scaler(config).unwrap(), scaler);
        }
        let error = files.load_scaler(LossScale::NONE).unwrap_err().to_string();
        assert!(error.contains("layer.scaler.json") && error.contains("Static(1.0) here"), "{error}");
    }
}

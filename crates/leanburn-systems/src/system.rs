//! From a configuration to what is trained: the one place that knows which systems there are.
//!
//! [`Run`] is the workload of every system; trainer, planner and session see nothing else. [`Data`] is what it is trained
//! on, [`BatchShape`] what a micro-batch of it looks like.

mod autoencoder;
mod data;
mod evaluation;
mod forecaster;
mod learner;
mod perceptual;
mod shape;
mod voxels;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use leanburn_nn::weights::{WeightsError, save_safetensors};
use leanburn_train::{
    AnyLearner, AutoencoderWorkload, ForecastWorkload, Losses, Moment, VaeWorkload, VqVaeWorkload, Workload,
};

use crate::config::{Config, SystemSection};
use crate::error::Result;
use crate::run_folder::RunFolder;

pub use autoencoder::{Discriminator, model, trained_model};
pub use data::{Batches, Data};
pub use evaluation::{L1, Metrics};
pub use forecaster::AnyForecaster;
pub use learner::trainer;
pub use shape::{BatchShape, multiples};

/// The workload of the command: one of the systems.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Run {
    /// The KL autoencoder.
    Autoencoder(AutoencoderWorkload<Discriminator>),
    /// The voxel autoencoder.
    Vae3d(VaeWorkload),
    /// The discrete autoencoder.
    VqVae(VqVaeWorkload),
    /// A forecaster.
    Forecaster(ForecastWorkload<AnyForecaster>),
}

/// A micro-batch of any system: volumes or fields, and what a forecaster is to tell.
pub type Batch = (Tensor<5>, Option<Tensor<4>>);

/// Builds the models and their learners, with weights drawn from the configuration's seed.
///
/// # Errors
///
/// [`CommandError::Model`](crate::error::CommandError::Model) with everything that keeps a model from being built.
pub fn build(config: &Config, source: &str, device: &Device) -> Result<Run> {
    Ok(match &config.system {
        SystemSection::Autoencoder(section) => Run::Autoencoder(autoencoder::build(config, section, source, device)?),
        SystemSection::Vae3d(section) => Run::Vae3d(voxels::build_vae(config, section, source, device)?),
        SystemSection::VqVae(section) => Run::VqVae(voxels::build_vq_vae(config, section, source, device)?),
        SystemSection::Forecaster(section) => {
            let sequence = config.sequence.clone().unwrap_or_default();
            Run::Forecaster(forecaster::build(config, section, &sequence, source, device)?)
        }
    })
}

impl Run {
    /// Numbers that are trained; running statistics and codebooks are not.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Autoencoder(workload) => trained(workload.autoencoder().module()),
            Self::Vae3d(workload) => trained(workload.vae().module()),
            Self::VqVae(workload) => trained(workload.vq_vae().module()),
            Self::Forecaster(workload) => trained(workload.forecaster().module()),
        }
    }

    /// Writes the trained weights into the folder of the run.
    ///
    /// # Errors
    ///
    /// As [`save_safetensors`].
    pub fn save_weights(&self, folder: &RunFolder) -> std::result::Result<(), WeightsError> {
        let path = folder.weights();
        match self {
            Self::Autoencoder(workload) => {
                save_safetensors(&workload.autoencoder().trained(), &path)?;
                match workload.discriminator() {
                    Some(discriminator) => discriminator.trained().save(&folder.discriminator_weights()),
                    None => Ok(()),
                }
            }
            Self::Vae3d(workload) => save_safetensors(&workload.vae().trained(), &path),
            Self::VqVae(workload) => save_safetensors(&workload.vq_vae().trained(), &path),
            Self::Forecaster(workload) => workload.forecaster().trained().save(&path),
        }
    }
}

/// Numbers of a module that take a gradient.
fn trained<M: Module>(module: &M) -> usize {
    struct Count(usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            self.0 += if tensor.is_require_grad() { tensor.shape().num_elements() } else { 0 };
        }
    }
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

impl Workload for Run {
    type Batch = Batch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        match self {
            Self::Autoencoder(workload) => workload.learners(),
            Self::Vae3d(workload) => workload.learners(),
            Self::VqVae(workload) => workload.learners(),
            Self::Forecaster(workload) => workload.learners(),
        }
    }

    fn loss(&mut self, turn: usize, (input, target): &Batch, moment: Moment) -> Option<Losses> {
        match self {
            Self::Autoencoder(workload) => workload.loss(turn, input, moment),
            Self::Vae3d(workload) => workload.loss(turn, input, moment),
            Self::VqVae(workload) => workload.loss(turn, input, moment),
            Self::Forecaster(workload) => {
                let target = target.clone().expect("batches of a forecaster have targets");
                workload.loss(turn, &(input.clone(), target), moment)
            }
        }
    }
}

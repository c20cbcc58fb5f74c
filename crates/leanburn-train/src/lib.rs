//! Training that fits: precision, accumulation, checkpoints that resume bit for bit, and an honest account of memory.
//!
//! How a step flows: micro-batch → [`Workload::loss`] → scaled backward → accumulate → unscale, check, clip → optimizer →
//! average of weights. [`Trainer`] runs it, a [`Workload`] says what is trained, and a [`Learner`] holds a module with
//! everything that goes with training it.
//!
//! Several processes, as a [`Group`], train one model: each takes its share of a step's micro-batches, and gradients are summed once a step.
//!
//! All randomness of a run is derived from its seed and position, so that the position is its whole random state.

mod agreement;
mod any_learner;
mod autoencoder;
mod average;
mod buffers;
mod checkpoint;
mod companions;
mod error;
mod forecast;
mod gradient_sums;
mod gradients;
mod learner;
mod learner_config;
mod learner_files;
mod loss_scale;
mod manifest;
mod memory;
mod mixed_dtypes;
mod optimizer;
mod optimizer_states;
mod out_of_memory;
mod perceptual;
pub mod planning;
mod precision;
mod prepared_step;
mod ranks;
mod recorded_optimizer;
mod recorded_step;
mod schedule;
mod sharding;
mod shares;
mod trainer;
mod trainer_config;
mod vae;
mod vq_vae;
mod workload;

pub use any_learner::{AnyLearner, LearnerMemory, Restore};
pub use autoencoder::{
    AutoencoderBatch, AutoencoderObjective, AutoencoderWorkload, Critic, ReconstructionLoss, volumes,
};
pub use average::WeightAverage;
pub use checkpoint::CheckpointStore;
pub use error::TrainError;
pub use forecast::{ForecastBatch, ForecastLoss, ForecastWorkload, Forecaster, windows};
pub use gradients::{Accumulator, Prepared, prepare_gradients};
pub use learner::Learner;
pub use learner_config::LearnerConfig;
pub use learner_files::trained_weights;
pub use loss_scale::{LossScale, LossScaler};
pub use memory::{CountingAllocator, MemoryMonitor, MemoryUse, PhasePeaks};
pub use optimizer::{OptimizerConfig, OptimizerConstants, OptimizerKind};
pub use out_of_memory::{is_out_of_memory, or_out_of_memory};
pub use perceptual::{Perceptual, PerceptualKind};
pub use precision::Precision;
pub use prepared_step::{LearnerReport, PreparedStep};
pub use ranks::{Alone, EXCHANGE_WINDOW, Group, Ranks};
pub use recorded_step::{RecordStepError, record_step};
pub use schedule::{Schedule, ScheduleConfig, ScheduleKind};
pub use trainer::{StepReport, Trainer};
pub use trainer_config::TrainerConfig;
pub use vae::VaeWorkload;
pub use vq_vae::VqVaeWorkload;
pub use workload::{Losses, MainModel, StepPosition, Workload};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

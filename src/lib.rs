//! Memory-lean training of volumetric (3D) deep-learning models on [Burn](https://burn.dev).
//!
//! Three ideas carry the project:
//!
//! 1. **Own the operations, own the memory.** What autodiff keeps between forward and backward is decided operation by
//!    operation. A segment of a model can keep nothing but its inputs and run again in backward: [`ops::recompute`].
//! 2. **Lossless first.** Savers that leave the mathematics alone (recomputation, accumulation) come before those that
//!    change the numerics (bfloat16, float16), and those before the ones that change the model (channels, resolution).
//! 3. **The plan is a trace of the real step.** The planner runs the very training step on a device that records
//!    instead of computing, and reads the peak off the record; it knows no rule of thumb.
//!
//! # Recomputing a segment
//!
//! Any Burn module will do. Loss and gradients stay the same, bit for bit; one more forward is the price.
//!
//! ```
//! use burn::nn::{Linear, LinearConfig};
//! use burn::prelude::*;
//! use leanburn::prelude::*;
//!
//! let device = Device::flex().autodiff();
//! let layers: Vec<Linear> = (0..4).map(|_| LinearConfig::new(16, 16).init(&device)).collect();
//! let x = Tensor::<2>::ones([8, 16], &device).require_grad();
//! let layer = |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh();
//!
//! let plain = layers.iter().fold(x.clone(), |x, linear| layer(linear, x));
//! let lean = layers.iter().fold(x.clone(), |x, linear| recompute(linear, x, layer));
//!
//! let gradient = |y: Tensor<2>| backward(y.sum()).take(&x).unwrap().into_data();
//! assert_eq!(gradient(lean), gradient(plain));
//! ```
//!
//! The models of [`nn`] take a [`ResidencyPolicy`](ops::ResidencyPolicy), which says the same of their named segments.
//!
//! # Planning and fitting a model of your own
//!
//! The memory of a step is read off a recording of it. Nothing is computed, and the size of the volumes does not matter.
//! [`train::planning`] takes a function that builds a [`Trainer`](train::Trainer). It predicts the memory of a step, on this processor or
//! on a card of the catalogue, and finds the fastest way to train within a budget; see its example.
//!
//! # Training a system
//!
//! What the command `leanburn` does is a call: a typed [`Config`](systems::Config), its plan and its fit, and a
//! [`Session`](systems::Session) with evaluation, checkpoints and resume.
//!
//! ```
//! use leanburn::prelude::*;
//!
//! let model = AutoencoderSection::new(vec![32, 64, 64]);
//! let data = DataConfig { voxel_size: Some([128, 128, 64]), paths: vec!["scans".into()], ..DataConfig::default() };
//! let config = SystemConfig::new(model).with_data(data);
//! let plan = config.plan(&Planner::card("rtx-4090")?)?;
//! assert_eq!(plan.fits(), Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! | module | what it has |
//! |---|---|
//! | [`ops`] | operations with a backward of their own, recomputation, the residency policy |
//! | [`nn`] | blocks, models and losses: plain Burn modules on [`ops`] |
//! | [`plan`] | from a recorded training step to the memory it will take |
//! | [`data`] | volumes in, batches out |
//! | [`train`] | precision, accumulation, checkpoints, the trainer, plans and fits of any model |
//! | [`systems`] | what can be trained by a configuration, and sessions that train it |
//! | [`mpi`] | several processes that train one model |
//! | [`burn`] | the Burn that all of it is built on, so that versions match |
//!
//! The CPU needs nothing. The features `vulkan`, `wgpu`, `cuda`, `metal` and `rocm` add graphics cards.

pub use burn;
pub use leanburn_common as common;
pub use leanburn_data as data;
pub use leanburn_mpi as mpi;
pub use leanburn_nn as nn;
pub use leanburn_ops as ops;
pub use leanburn_plan as plan;
pub use leanburn_systems as systems;
pub use leanburn_train as train;

/// What a program that trains a model needs; goes together with `burn::prelude`, whose `Config` is a trait: that of a system
/// is `SystemConfig` here.
pub mod prelude {
    pub use crate::common::{Bytes, ValidationError};
    pub use crate::data::{
        AdvectionConfig, Batch, DataConfig, Dataset, LabelsConfig, Loader, PhantomConfig, RadarConfig, SequenceConfig,
        Volume,
    };
    pub use crate::nn::blocks::{Dropout, Dropout3d, DropoutConfig};
    pub use crate::nn::losses::{DiceCeLoss, DiceLoss, FocalLoss, binary_cross_entropy_loss, cross_entropy_loss};
    pub use crate::nn::models::{
        AutoencoderKl, AutoencoderKlConfig, DiffusionUNet3d, DiffusionUNet3dConfig, MultiScalePatchDiscriminator,
        MultiScalePatchDiscriminatorConfig, PatchDiscriminator, PatchDiscriminatorConfig, UNet3d, UNet3dConfig,
    };
    pub use crate::ops::random::seed;
    pub use crate::ops::{
        Gradients, Residency, ResidencyPolicy, StreamKeep, StreamSettings, Tensors, backward, keep_freed_memory,
        on_pool, recompute, struct_of_tensors,
    };
    pub use crate::plan::{
        Candidate, Class, CubeMemory, FlexMemory, Frontier, Machine, MemoryModel, Obstacle, Plan, Rates, RecordError,
        Recording, Space, Target, Timeline, Variant, bound, frontier, record,
    };
    pub use crate::systems::{
        AutoencoderSection, Config as SystemConfig, DeviceSection, DiffusionSection, DynUnetSection, ForecasterSection,
        LatentsSection, Observed, Observer, OnOutOfMemory, Outcome, Recompute, SegmentationSection, Session,
        SwinUnetrSection, SystemError, TrainingSection, UnetSection, Vae3dSection, VqVaeSection,
    };
    pub use crate::train::planning::{Planner, StepPlan, StepSetup, measure};
    pub use crate::train::{
        AnyLearner, AutoencoderObjective, AutoencoderWorkload, CheckpointStore, CountingAllocator, Learner,
        LearnerConfig, LossScale, Losses, MemoryMonitor, OptimizerConfig, OptimizerKind, Precision, ScheduleConfig,
        ScheduleKind, StepPosition, StepReport, TrainError, Trainer, TrainerConfig, Workload, record_step, volumes,
    };
}

/// Every snippet of the README and of the docs.
#[cfg(doctest)]
mod snippets {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/DESIGN.md")]
    struct Design;
    #[doc = include_str!("../docs/calc.md")]
    struct Calc;
    #[doc = include_str!("../docs/cards.md")]
    struct Cards;
    #[doc = include_str!("../docs/configuration.md")]
    struct Configuration;
    #[doc = include_str!("../docs/devices.md")]
    struct Devices;
    #[doc = include_str!("../docs/distributed.md")]
    struct Distributed;
    #[doc = include_str!("../docs/memory-savers.md")]
    struct MemorySavers;
    #[doc = include_str!("../docs/streaming.md")]
    struct Streaming;
    #[doc = include_str!("../docs/your-own-model.md")]
    struct YourOwnModel;
    #[doc = include_str!("../docs/planner.md")]
    struct Planner;
}

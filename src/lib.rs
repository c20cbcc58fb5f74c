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
//! # Planning a step
//!
//! What a step will need is read off a recording of it; nothing is computed, and the size of the volumes costs nothing.
//!
//! ```
//! use burn::nn::conv::Conv3dConfig;
//! use burn::prelude::*;
//! use leanburn::prelude::*;
//!
//! let (recording, ()) = record(Target::Cpu, |device| {
//!     let layer = Conv3dConfig::new([1, 8], [3, 3, 3]).init(device);
//!     let scans = Tensor::<5>::zeros([1, 1, 256, 256, 256], device);
//!     let _ = backward(layer.forward(scans).mean()).take_module(&layer);
//! })?;
//! let timeline = recording.timeline(&FlexMemory);
//! assert!(timeline.peak() > 8 * 254 * 254 * 254 * 4);
//! # Ok::<(), RecordError>(())
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
//! | [`train`] | precision, accumulation, checkpoints, the trainer, an honest account of memory |
//!
//! The CPU needs nothing. The features `vulkan`, `wgpu`, `cuda`, `metal` and `rocm` add graphics cards.

pub use leanburn_data as data;
pub use leanburn_nn as nn;
pub use leanburn_ops as ops;
pub use leanburn_plan as plan;
pub use leanburn_train as train;

/// What a program that trains a model needs; goes together with `burn::prelude`.
pub mod prelude {
    pub use crate::data::{Batch, DataConfig, Dataset, Loader, PhantomConfig, Volume};
    pub use crate::nn::models::{
        AutoencoderKl, AutoencoderKlConfig, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig,
        PatchDiscriminator, PatchDiscriminatorConfig,
    };
    pub use crate::ops::{Gradients, Residency, ResidencyPolicy, backward, recompute};
    pub use crate::plan::{
        Candidate, Class, CubeMemory, FlexMemory, Frontier, Machine, MemoryModel, Plan, Rates, RecordError, Recording,
        Space, Target, Timeline, Variant, frontier, record,
    };
    pub use crate::train::{
        AnyLearner, AutoencoderObjective, AutoencoderWorkload, CheckpointStore, CountingAllocator, Learner,
        LearnerConfig, LossScale, Losses, MemoryMonitor, Moment, OptimizerConfig, Precision, ScheduleConfig,
        ScheduleKind, TrainError, Trainer, TrainerConfig, Workload, planning::Planner, planning::StepSetup,
        record_step, volumes,
    };
    pub use leanburn_common::Bytes;
}

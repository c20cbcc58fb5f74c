//! Latent diffusion: a U-Net learns to take noise away from the latents of a trained autoencoder, and makes new ones out of noise.
//!
//! Rombach et al., [High-Resolution Image Synthesis with Latent Diffusion Models](https://arxiv.org/abs/2112.10752). With the section
//! `consistency` the same network becomes a consistency model, which makes them in one step: Song et al.,
//! [Consistency Models](https://arxiv.org/abs/2303.01469).
//!
//! - `section.rs`, `objective.rs`, `scheduler.rs`, `checks.rs`: the section of a configuration; `noise.rs`: what the scheduler comes to.
//! - `stage.rs`: the autoencoder; `encoding.rs`, `latent.rs`, `latents.rs`, `latent_files.rs`, `batch.rs`: the latents, encoded once.
//! - `workload.rs`: training; `evaluation.rs`: the loss at each noise level; `linear.rs`: the best linear predictor beside it; `quality.rs`: how near
//!   samples are to real latents.
//! - `consistency_section.rs`, `consistency.rs`: consistency models; `teacher.rs`: what they are distilled from.
//! - `sampling.rs`, `guidance.rs`: new latents, and volumes of them; `system.rs`: all of it together.

mod batch;
mod checks;
mod consistency;
mod consistency_section;
mod encoding;
mod evaluation;
mod guidance;
mod latent;
mod latent_files;
mod latents;
mod linear;
mod noise;
mod objective;
mod quality;
mod sampling;
mod scheduler;
mod section;
mod stage;
mod system;
mod teacher;
mod workload;

pub use consistency_section::{ConsistencySection, LossNorm, ScaleMode, TargetEmaMode, TrainingMode, WeightSchedule};
pub use latents::LatentDataset;
pub use objective::DiffusionObjectiveSection;
pub use quality::{RealLatents, SampleQuality};
pub use sampling::{LatentSampler, SamplingPlan};
pub use scheduler::{Betas, DdpmSection, EdmSection, RflowSection, SamplingMethod, SchedulerSection, TimeSampling};
pub use section::DiffusionSection;
pub use workload::{DiffusionWorkload, LatentBatch};

pub(crate) use objective::training as averaged_training;
pub(crate) use section::most_groups;

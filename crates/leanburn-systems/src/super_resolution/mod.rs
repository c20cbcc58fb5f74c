//! Super-resolution of fields. By diffusion: a U-Net that sees a coarse field learns to take noise away from the fine one, and makes fine
//! fields out of noise that fit to the coarse one; Saharia et al., [Image Super-Resolution via Iterative
//! Refinement](https://arxiv.org/abs/2104.07636). Or by networks that give a fine field at once.
//!
//! - `section.rs`, `network.rs`, `objective.rs`: the section of a configuration; `model.rs`: the networks as one.
//! - `workload.rs`: training; `sampling.rs`: fine fields; `evaluation.rs`: how close they are.
//! - `system.rs`: all of it together.

mod evaluation;
mod model;
mod network;
mod objective;
mod sampling;
mod section;
mod system;
mod workload;

pub use model::{SuperResolver, SuperResolverConfig};
pub use network::{EdsrSection, Sr3Section, SuperResolutionNetwork, UNet2dSection};
pub use objective::{SuperResolutionLoss, SuperResolutionObjectiveSection};
pub use section::SuperResolutionSection;
pub use workload::SuperResolutionWorkload;

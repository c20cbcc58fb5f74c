//! Super-resolution of fields by diffusion: a U-Net that sees a coarse field learns to take noise away from the fine one, and makes fine
//! fields out of noise that fit to the coarse one.
//!
//! Saharia et al., [Image Super-Resolution via Iterative Refinement](https://arxiv.org/abs/2104.07636).
//!
//! - `section.rs`, `network.rs`, `objective.rs`: the section of a configuration.
//! - `workload.rs`: training; `sampling.rs`: fine fields out of noise; `evaluation.rs`: how close they are.
//! - `system.rs`: all of it together.

mod evaluation;
mod network;
mod objective;
mod sampling;
mod section;
mod system;
mod workload;

pub use network::{Sr3Section, SuperResolutionNetwork};
pub use objective::{SuperResolutionLoss, SuperResolutionObjectiveSection};
pub use section::SuperResolutionSection;
pub use workload::SuperResolutionWorkload;

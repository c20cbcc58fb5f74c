//! Losses, all computed in float32 whatever the dtype of what they compare, each one number of shape `[1]`.

mod adversarial;
mod kl;
mod l1;
mod l2;
mod occupancy;
mod vae;

pub use adversarial::{AdversarialCriterion, PatchAdversarialLoss};
pub use kl::{kl_divergence, kl_divergence_mean};
pub use l1::l1_loss;
pub use l2::l2_loss;
pub use occupancy::{Difference, OccupancyWeight, voxel_loss};
pub use vae::VaeLoss;

//! Losses, all computed in float32 regardless of the dtype of what they compare, each one number of shape `[1]`.
//!
//! The perceptual ones, [`Lpips`] on slices and [`FeatureLoss3d`] on volumes, hold networks and run as recomputed segments.

mod adversarial;
mod binary_cross_entropy;
mod classes;
mod cross_entropy;
mod deep_supervision;
mod depth;
mod dice;
mod feature3d;
mod focal;
mod kl;
mod l1;
mod l2;
mod lpips;
mod occupancy_criterion;
mod relative;
mod shapes;
mod vae;
mod voxels;

pub use adversarial::{AdversarialCriterion, PatchAdversarialLoss};
pub use binary_cross_entropy::binary_cross_entropy_loss;
pub use cross_entropy::cross_entropy_loss;
pub use deep_supervision::{deep_supervision_loss, deep_supervision_weights};
pub use depth::expected_depth_loss;
pub use dice::{DiceCeLoss, DiceLoss};
pub use feature3d::{FeatureLoss3d, FeatureLoss3dConfig, Scale};
pub use focal::FocalLoss;
pub use kl::{kl_divergence, kl_divergence_mean};
pub use l1::l1_loss;
pub use l2::l2_loss;
pub use lpips::{FeatureSlice, Fire, Lpips, LpipsConfig, LpipsError, LpipsFeatures, LpipsLayer, LpipsNetwork, Plane};
pub use occupancy_criterion::{ClassWeights, OccupancyCriterion};
pub use relative::relative_l2_loss;
pub use vae::VaeLoss;
pub use voxels::{Difference, VoxelLoss};

//! Learned perceptual similarity of the slices of a volume.
//!
//! Zhang et al., [The Unreasonable Effectiveness of Deep Features as a Perceptual Metric](https://arxiv.org/abs/1801.03924):
//! a network that was trained on photographs is applied to both images, and the distance is that of its features. For
//! volumes it is applied to slices along the three axes ("2.5D"). A slice is a plane of the depth, so that images need no
//! rearrangement: the convolutions have a depth of one.

mod config;
mod error;
mod loss;
mod network;

pub use config::{LpipsConfig, LpipsNetwork, Plane};
pub use error::LpipsError;
pub use loss::Lpips;
pub use network::{FeatureSlice, Fire, LpipsFeatures, LpipsLayer};

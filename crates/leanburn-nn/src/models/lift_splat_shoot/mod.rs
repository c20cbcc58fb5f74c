//! Lift, splat, shoot: a map of the ground from the images of cameras.
//!
//! Philion and Fidler, [Lift, Splat, Shoot](https://arxiv.org/abs/2008.05711). Each pixel of an image has a distribution over depths; its
//! features go to the points of its line of sight, and from there to the cells of a view from above. As in the guide to nuScenes the backbone is
//! a Swin transformer, and the head that of [pyramid occupancy networks](https://arxiv.org/abs/2003.13402).

mod bottleneck;
mod config;
mod diffusion_head;
mod grid;
mod lift;
mod model;
mod names;
mod pyramid_head;

pub use bottleneck::{BevBlock, BevConv};
pub use config::LiftSplatShootConfig;
pub use diffusion_head::{BevDiffusionHead, BevEncoder, BevFusion};
pub use grid::BevGridConfig;
pub use lift::Lift;
pub use model::{BevView, LiftSplatShoot};
pub use pyramid_head::{NUSCENES_PRIORS, PyramidHead, PyramidHeadConfig};

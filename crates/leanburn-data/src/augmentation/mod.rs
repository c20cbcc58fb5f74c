//! Augmentation of training samples in three dimensions, as nnU-Net does it
//! ([Isensee et al. 2021](https://doi.org/10.1038/s41592-020-01008-z), supplementary note 4; the constants are those of
//! `nnUNetTrainer` 2.5), with elastic deformation and bias fields on top.
//!
//! | file | what it has |
//! |---|---|
//! | `config.rs` | how often and how strongly: the keys of a configuration, and the preset |
//! | `draw.rs` | all random numbers of one sample, drawn before anything is computed |
//! | `warp.rs`, `elastic.rs` | rotation, scaling and elastic deformation: where each voxel of a patch is read |
//! | `change.rs`, `blur.rs`, `bias_field.rs`, `low_resolution.rs` | changes of the values of one channel |
//!
//! A warp reads the volume where the patch's voxels come to lie, so that nothing is cut off at the corners of a rotated patch, and no
//! larger patch is cut first. Beyond the part of the volume that may be read, its outermost voxels repeat. Mirroring is
//! [`DataConfig::flip`](crate::DataConfig::flip); it comes last, as in nnU-Net.
//!
//! # Memory
//! Changes are made in place, besides a copy of one channel at low resolution ([`AugmentationConfig::scratch_bytes`]).

mod bias_field;
mod blur;
mod change;
mod config;
mod draw;
mod elastic;
mod interpolate;
mod low_resolution;
#[cfg(test)]
mod tests;
mod warp;

pub use config::{AugmentationConfig, Strength};
pub(crate) use draw::Drawn;
pub(crate) use interpolate::{nearest, trilinear};
pub(crate) use warp::{Warp, warp_into};

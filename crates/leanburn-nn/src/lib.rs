//! Blocks, models and losses for volumetric deep learning, plain Burn modules on leanburn-ops.
//!
//! - [`blocks`]: convolutions, norms, attention, resampling; what the models are made of.
//! - [`models`]: [`AutoencoderKl`](models::AutoencoderKl), [`VqVae3d`](models::VqVae3d), [`UNet3d`](models::UNet3d),
//!   [`DynUnet`](models::DynUnet), [`SwinUnetr`](models::SwinUnetr), [`DiffusionUNet3d`](models::DiffusionUNet3d),
//!   [`PatchDiscriminator`](models::PatchDiscriminator) and
//!   [`MultiScalePatchDiscriminator`](models::MultiScalePatchDiscriminator), equal to MONAI's; [`Vae3d`](models::Vae3d),
//!   [`ConvLstm`](models::ConvLstm), [`Cnn3dLstm`](models::Cnn3dLstm); [`Fno`](models::Fno), the Fourier neural operators;
//!   [`LiftSplatShoot`](models::LiftSplatShoot), maps from cameras.
//! - [`diffusion`]: noise schedules and samplers; [`consistency`]: training for samples in one step.
//! - [`losses`]: of reconstructions, latents, adversaries and classes.
//! - [`weights`]: MONAI's weight files in and out.
//!
//! # Mixed precision
//!
//! One rule, in [`numerics`]: the dtype of the activation decides. Parameters are float32; every convolution gives its
//! result in the dtype of its input; statistics, softmax and losses are computed in float32. A model runs in bfloat16
//! when its input is cast to bfloat16, and nothing else is to be configured.

pub mod blocks;
pub mod consistency;
pub mod diffusion;
pub mod losses;
pub mod models;
mod segmented;
mod validation;
pub mod weights;

pub use leanburn_ops::numerics;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Autoencoder with a Gaussian latent space.
//!
//! Rombach et al., [High-Resolution Image Synthesis with Latent Diffusion Models](https://arxiv.org/abs/2112.10752);
//! for volumes Pinaya et al., [Brain Imaging Generation with Latent Diffusion Models](https://arxiv.org/abs/2209.07162).
//! An encoder halves the volume level by level, two 1x1x1 convolutions give mean and deviation of the latent, a
//! decoder doubles it back.

mod block;
mod builder;
mod config;
mod decoder;
mod encoder;
mod levels;
mod model;
mod names;

pub use block::{Block, Out};
pub(super) use builder::ChainBuilder;
pub use config::AutoencoderKlConfig;
pub use model::AutoencoderKl;
pub(super) use model::{deviation, log_variances, sample};

//! Variational autoencoder of voxels whose depth is shallow.
//!
//! [Auto-Encoding Variational Bayes](https://arxiv.org/abs/1312.6114) with the residual blocks of latent diffusion
//! ([Rombach et al.](https://arxiv.org/abs/2112.10752)). The first level halves height and width only, so that a volume of
//! few slices keeps them longer; the volume is enlarged by trilinear interpolation, which leaves no checkerboards.

mod chain;
mod config;
mod model;

pub use config::Vae3dConfig;
pub use model::Vae3d;

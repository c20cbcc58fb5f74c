//! Autoencoder with a discrete latent space.
//!
//! [Neural Discrete Representation Learning](https://arxiv.org/abs/1711.00937); for volumes Tudosiu et al.,
//! [Morphology-preserving Autoregressive 3D Generative Modelling of the Brain](https://arxiv.org/abs/2209.03177). Strided
//! convolutions and residual units, a codebook, and back by transposed convolutions.

mod block;
mod config;
mod model;

pub use block::{VqBlock, VqConv, VqResidual, VqTransposed};
pub use config::VqVae3dConfig;
pub use model::VqVae3d;

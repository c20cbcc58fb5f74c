//! nnU-Net's U-Net: kernels and strides of their own for each level and axis, so that thick slices are halved later than thin ones.
//!
//! Isensee et al., [nnU-Net](https://doi.org/10.1038/s41592-020-01008-z). Two convolutions a level, strided ones in the encoder, and in the
//! decoder transposed ones with kernels as large as their strides.

mod config;
mod model;
mod names;

pub use config::DynUnetConfig;
pub use model::DynUnet;

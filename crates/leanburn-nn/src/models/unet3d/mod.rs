//! U-Net with residual units: labels of every voxel from a volume.
//!
//! Ronneberger et al., [U-Net](https://arxiv.org/abs/1505.04597); with residual units Kerfoot et al.,
//! [Left-Ventricle Quantification Using Residual U-Net](https://doi.org/10.1007/978-3-030-12029-0_40). Strided convolutions
//! in the encoder, transposed ones in the decoder, and a skip connection from each level of the encoder to that of the decoder.

mod config;
mod decoder;
mod model;
mod names;
mod unit;

pub use config::UNet3dConfig;
pub use decoder::{UNetDecoder, UNetResidualDecoder, UNetUpsample};
pub use model::{UNet3d, UNetBottom, UNetLevel, UNetSides};
pub use unit::{UNetLayer, UNetResidual, UNetUnit};

//! U-Net with residual units: labels of every voxel from a volume.
//!
//! Ronneberger et al., [U-Net](https://arxiv.org/abs/1505.04597); with residual units Kerfoot et al.,
//! [Left-Ventricle Quantification Using Residual U-Net](https://doi.org/10.1007/978-3-030-12029-0_40). Strided convolutions
//! on the way down, transposed ones on the way up, and each level of the way up sees what its level gave on the way down.

mod config;
mod decoder;
mod model;
mod names;
mod unit;

pub use config::UNet3dConfig;
pub use decoder::{UNetDecoder, UNetResidualDecoder, UNetUpsample};
pub use model::{UNet3d, UNetBottom, UNetLevel, UNetSides};
pub use unit::{UNetLayer, UNetResidual, UNetUnit};

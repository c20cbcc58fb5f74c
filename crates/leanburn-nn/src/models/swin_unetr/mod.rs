//! Swin UNETR: labels of every voxel by a transformer in windows and a convolutional decoder.
//!
//! Hatamizadeh et al., [Swin UNETR](https://arxiv.org/abs/2201.01266); version 2 He et al.,
//! [SwinUNETR-V2](https://doi.org/10.1007/978-3-031-43901-8_40). Four stages of [Swin Transformer](https://arxiv.org/abs/2103.14030)
//! blocks, each of which halves the volume, and the decoder of [UNETR](https://arxiv.org/abs/2103.10504) with skip connections
//! from the volume and from each stage.

mod config;
mod model;
mod names;
mod transformer;

pub use config::{Merging, SwinUnetrConfig};
pub use model::SwinUnetr;
pub use transformer::{SwinEncoder, SwinEncoderStage};

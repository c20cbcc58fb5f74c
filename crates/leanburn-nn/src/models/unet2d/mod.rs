//! The U-Net of [DiffSR](https://github.com/lizhihao2022/DiffSR) on enlarged fields, a baseline of super-resolution.
//!
//! Ronneberger et al., [U-Net](https://arxiv.org/abs/1505.04597), with batch norms and tanh.

mod config;
mod model;
mod names;

pub use config::UNet2dConfig;
pub use model::{UNet2d, UNet2dBlock, UNet2dUp};

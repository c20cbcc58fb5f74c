//! The Swin transformer: features of images by attention in shifted windows.
//!
//! Liu et al., [Swin Transformer](https://arxiv.org/abs/2103.14030). Stages of blocks that attend inside windows; between two stages
//! patches of four positions are merged into one of twice the channels. Images are volumes of depth one.

mod config;
mod model;
mod names;

pub use config::SwinTransformer2dConfig;
pub use model::{SwinStage2d, SwinTransformer2d};

//! The U-Net that predicts the noise in a volume: residual blocks that know the time, attention, conditions.
//!
//! Ho et al., [Denoising Diffusion Probabilistic Models](https://arxiv.org/abs/2006.11239); Rombach et al.,
//! [High-Resolution Image Synthesis with Latent Diffusion Models](https://arxiv.org/abs/2112.10752).
//!
//! - `model.rs`: the model; `level.rs`: its levels, each a segment of segments.
//! - `res_block.rs`, `attention.rs`, `transformer.rs`: the blocks; `embedding.rs`: time and class.
//! - `config.rs`, `names.rs`: configuration, and MONAI's names.

mod attention;
mod config;
mod embedding;
mod level;
mod model;
mod names;
mod res_block;
mod transformer;

pub use attention::DiffusionAttention;
pub use config::DiffusionUNet3dConfig;
pub use embedding::{ClassEmbedding, TimeEmbedding};
pub use level::{DiffusionDownBlock, DiffusionDownsampler, DiffusionMiddleBlock, DiffusionUpBlock, DiffusionUpsampler};
pub use model::{DiffusionConditions, DiffusionUNet3d};
pub use res_block::DiffusionResBlock;
pub use transformer::{CrossAttention, GatedFeedForward, SpatialTransformer, TransformerBlock};

pub(crate) use embedding::phases;

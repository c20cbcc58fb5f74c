//! The U-Net of super-resolution by diffusion: it sees the coarse field enlarged, a noisy fine one, and how noisy that is.
//!
//! Saharia et al., [Image Super-Resolution via Iterative Refinement](https://arxiv.org/abs/2104.07636) (SR3), on planes and on volumes. With
//! times in place of noise levels it is the network of Ho et al., [Denoising Diffusion Probabilistic
//! Models](https://arxiv.org/abs/2006.11239), as [DiffSR](https://github.com/lizhihao2022/DiffSR) has both.
//!
//! - `model.rs`: the model and its levels, each a segment of segments.
//! - `block.rs`: residual blocks that know the noise, and their attention; `embedding.rs`: what tells them.
//! - `config.rs`, `names.rs`: configuration, and DiffSR's names.

mod block;
mod config;
mod embedding;
mod model;
mod names;

pub use block::{Sr3Attention, Sr3Block, Sr3NormConv, Sr3ResBlock};
pub use config::{Sr3Condition, Sr3UNetConfig};
pub use embedding::Sr3Embedding;
pub use model::{Sr3Layer, Sr3Resample, Sr3UNet};

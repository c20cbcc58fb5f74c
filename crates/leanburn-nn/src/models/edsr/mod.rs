//! Super-resolution by residual blocks on the coarse grid, which is refined at the end.
//!
//! Lim et al., [Enhanced Deep Residual Networks for Single Image Super-Resolution](https://arxiv.org/abs/1707.02921) (EDSR), as
//! [DiffSR](https://github.com/lizhihao2022/DiffSR) has it.

mod config;
mod model;
mod names;

pub use config::EdsrConfig;
pub use model::{Edsr, EdsrBlock, EdsrLayer, EdsrTail};

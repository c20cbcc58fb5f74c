//! Fourier neural operators.
//!
//! [Fourier Neural Operator for Parametric Partial Differential Equations](https://arxiv.org/abs/2010.08895): a network between
//! functions, whose layers multiply Fourier coefficients of a few frequencies. So the same weights work on any grid.
//!
//! One model stands for the networks in use: `config.rs` says which they are, `spectral.rs` has weights of the frequencies, dense or
//! factorised, `layer.rs` a layer, `mlp.rs` the networks in front and behind, `upsample.rs` the way to a finer grid.

mod config;
mod grid;
mod layer;
mod mlp;
mod model;
mod names;
mod spectral;
mod upsample;

pub use config::{FnoBlock, FnoConfig, FnoFrequencies, FnoPositions, FnoUpsampling};
pub use layer::{FnoLayer, FnoLayerMlp};
pub use mlp::FnoMlp;
pub use model::Fno;
pub use spectral::FnoWeights;
pub use upsample::{FnoDoubling, FnoUpsample};

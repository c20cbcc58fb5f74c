//! Fourier neural operator.
//!
//! [Fourier Neural Operator for Parametric Partial Differential Equations](https://arxiv.org/abs/2010.08895): a network between
//! functions, whose layers multiply Fourier coefficients of a few frequencies. So the same weights work on any grid.

mod config;
mod layer;
mod model;
mod names;

pub use config::FnoConfig;
pub use layer::FnoLayer;
pub use model::Fno;

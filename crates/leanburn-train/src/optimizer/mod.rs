//! Which of Burn's optimizers, its constants, and what its states cost.

mod build;
mod config;
mod constants;
mod kind;
mod mover;
mod states;
#[cfg(test)]
mod tests;

pub use config::OptimizerConfig;
pub use constants::OptimizerConstants;
pub use kind::OptimizerKind;
pub(crate) use mover::Moved;

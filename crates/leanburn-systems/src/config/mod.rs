//! The configuration of a training run, built in code or read from YAML with every error at once.
//!
//! ```text
//! text --yaml--> nodes with places --staged--> --flat--> --overrides--> nodes --read--> Config --validate--> Config
//!                                                             \______ errors, all of them ______/
//! ```

mod diffsr;
mod diffsr_networks;
mod document;
mod entries;
mod evaluate;
mod flat;
mod mmcv;
mod staged;

#[cfg(test)]
mod tests;

pub use document::{Config, NeededRun};

pub(crate) use diffsr_networks::NAMES as DIFFSR_NETWORKS;
pub(crate) use mmcv::TELLING as MMCV_KEYS;

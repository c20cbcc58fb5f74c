//! The configuration of a training run, built in code or read from YAML with every error at once.
//!
//! ```text
//! text --yaml--> nodes with places --flat--> --overrides--> nodes --read--> Config --validate--> Config
//!                                                             \______ errors, all of them ______/
//! ```

mod document;
mod entries;
mod flat;
mod mmcv;

#[cfg(test)]
mod tests;

pub use document::Config;

pub(crate) use mmcv::TELLING as MMCV_KEYS;

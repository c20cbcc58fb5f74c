//! Volumes of a configuration, with their labels, as training and validation samples.

mod batch;
mod config;
mod dataset;
mod item;
mod labels;
mod memory;
mod prepare;
mod source;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Sample};
pub use config::{DataConfig, LabelsConfig};
pub use dataset::{Dataset, HeldOut, Preview, Progress};
pub(crate) use item::Reader;
pub use memory::DataMemory;
pub use prepare::{Prepared, prepare};

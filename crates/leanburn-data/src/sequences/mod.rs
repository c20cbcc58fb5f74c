//! Sequences of fields, such as weather, as windows for forecasters.

mod advection;
mod config;
mod dataset;
mod sequence;
mod window;

pub use advection::{Advection, AdvectionConfig, Flow};
pub use config::SequenceConfig;
pub use dataset::SequenceDataset;
pub use sequence::Sequence;
pub use window::{Window, WindowBatch};

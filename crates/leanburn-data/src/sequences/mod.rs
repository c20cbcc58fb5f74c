//! Sequences of fields, such as weather, as windows for forecasters.

mod advection;
mod axes;
mod config;
mod dataset;
mod degradation;
mod navier_stokes;
mod normalization;
mod placement;
mod sequence;
mod split;
mod window;

pub use advection::{Advection, AdvectionConfig, Flow};
pub use config::SequenceConfig;
pub use dataset::SequenceDataset;
pub use navier_stokes::{NavierStokes, NavierStokesConfig};
pub use sequence::Sequence;
pub use window::{Window, WindowBatch};

//! Neural operators: from fields to later or finer ones, on any grid.

mod modes;
mod section;
mod system;
mod workload;

pub use section::{OperatorLoss, OperatorModel, OperatorObjectiveSection, OperatorSection};
pub use workload::OperatorWorkload;

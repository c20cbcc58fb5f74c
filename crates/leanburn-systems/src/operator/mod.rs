//! Neural operators: from fields to later or finer ones, on any grid.

mod modes;
mod section;
mod system;

pub use section::{OperatorLoss, OperatorModel, OperatorObjectiveSection, OperatorSection};

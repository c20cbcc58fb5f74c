//! Neural operators: from fields to later or finer ones, on any grid.

mod evaluation;
mod modes;
mod network;
mod section;
mod system;

pub use network::AnyOperator;
pub use section::{OperatorLoss, OperatorModel, OperatorObjectiveSection, OperatorSection};

//! From a configuration to what the planner can plan, and back.

mod budget;
mod config_plan;
mod space;
mod variants;

pub use budget::{Budget, memory_of};
pub use config_plan::{FittedConfig, fit, plan};
pub use space::ConfigSpace;

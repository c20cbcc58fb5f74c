//! From a configuration to what the planner can plan, and back.

mod budget;
mod calls;
mod space;
mod variants;

pub use budget::{Budget, memory_of};
pub use calls::FittedConfig;
pub use space::ConfigSpace;

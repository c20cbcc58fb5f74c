//! From a configuration to what the planner can plan, and back.

mod calls;
mod planner;
mod space;
mod variants;

pub use calls::FittedConfig;
pub use planner::planner_of;
pub(crate) use space::program;
pub use space::{ConfigSpace, HeldBytes};

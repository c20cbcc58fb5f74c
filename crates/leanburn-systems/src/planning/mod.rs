//! From a configuration to what the planner can plan, and back.

mod budget;
mod rates;
mod space;
mod variants;

pub use budget::{Budget, memory_of};
pub use rates::{measure_rates, rates_for, save_rates};
pub use space::{ConfigSpace, SMALLEST_BLOCK};

//! From a configuration to what the planner can plan, and back.

mod budget;
mod rates;
mod space;
mod variants;

pub use budget::{Budget, BudgetArguments, memory_of};
pub use rates::rates_for;
pub use space::{ATTENTION_BLOCK, ConfigSpace, SMALLEST_BLOCK};

//! What a trainer does with steps. One program, which is linked once.

mod accumulation;
#[path = "../common/mod.rs"]
mod common;
mod overflow;
mod precision;
mod recomputation;
mod resume;
mod steps;
mod unrecordable;

//! Trace of a training step without a device: what it will need.
//!
//! [`record`] runs a step on a device that records instead of computing; a [`Recording`] knows the operations in order.
//! A [`MemoryModel`] says what a device does with memory for each of them, and the two together give a [`Timeline`]: what
//! lives when, and the peak.

mod flex;
mod memory_model;
mod operation;
mod recording;
mod simulation;
mod timeline;

pub use flex::FlexMemory;
pub use memory_model::{Effect, MemoryModel, Operand, Place};
pub use recording::{RecordError, Recording, Target, record};
pub use timeline::{Block, Cause, Moment, Phase, Timeline};

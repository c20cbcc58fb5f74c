//! Trace of a training step without a device: what it will need.
//!
//! [`record`] runs a step on a device that records instead of computing; a [`Recording`] knows the operations in order.
//! A [`MemoryModel`] says what a device does with memory for each of them, and the two together give a [`Timeline`]: what
//! lives when, and the peak. [`Rates`] turn its operations into seconds, and a [`frontier`] holds the best of many ways to train.

pub mod calc;
pub mod catalogue;
mod chain;
mod cube;
mod fit;
mod flex;
mod graphs;
mod memory_model;
mod operation;
mod profile;
mod rates;
mod recording;
mod search;
mod simulation;
mod timeline;

pub use cube::CubeMemory;
pub use fit::{Candidate, Class, Frontier, Machine, Plan, Space, Variant};
pub use flex::FlexMemory;
pub use graphs::Books;
pub use memory_model::{Effect, MemoryModel, Operand, Place};
pub use rates::Rates;
pub use recording::{RecordError, Recording, Target, record};
pub use search::{Plans, frontier};
pub use timeline::{Block, Cause, Moment, Phase, Timeline, bound};

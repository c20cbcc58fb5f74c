//! Trace of a training step without a device: what it will need.
//!
//! [`record`] runs a step on a device that records instead of computing; a [`Recording`] knows the operations in order.
//! A [`MemoryModel`] says what a device does with memory for each of them, and the two together give a [`Timeline`]: what
//! lives when, and the peak. [`Rates`] turn its operations into seconds, and a [`frontier`] holds the best of
//! everything that a [`Space`] can vary.

pub mod calc;
mod candidate;
pub mod catalogue;
mod chain;
mod cube;
mod estimate;
mod flex;
mod graphs;
mod knob;
mod memory_model;
mod operation;
mod plans;
mod profile;
mod rates;
mod record_error;
mod recording;
mod search;
mod simulation;
mod space;
mod timeline;

pub use candidate::Candidate;
pub use cube::CubeMemory;
pub use flex::FlexMemory;
pub use graphs::GraphMetadata;
pub use knob::Knob;
pub use memory_model::{Effect, Kept, MemoryModel, Operand, Place};
pub use plans::{Frontier, Machine, Plan};
pub use rates::Rates;
pub use record_error::{Obstacle, RecordError};
pub use recording::{Recording, Target, record};
pub use search::{Plans, frontier};
pub use space::{Class, Space, Variant, splits};
pub use timeline::{Block, Cause, OperationEvent, Phase, Timeline, bound};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

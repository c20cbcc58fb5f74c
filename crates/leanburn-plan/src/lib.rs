//! Trace of a training step without a device: what it will need.
//!
//! [`record`] runs a step on a device that records instead of computing; a [`Recording`] knows the operations in order,
//! and from their lifetimes the peak of live tensors. What backends add to that (workspaces, in-place reuse, views, an
//! allocator's rounding) is not modelled yet.

mod recording;

pub use recording::{RecordError, Recording, record};

//! What models promise: shapes, what is recorded, streamed and kept. One program, which is linked once.

#[path = "../common/mod.rs"]
mod common;
mod conversions;
mod forecast;
mod loss_shapes;
mod recorded;
mod streaming;
mod vae;

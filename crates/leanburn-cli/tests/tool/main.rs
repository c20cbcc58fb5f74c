//! What the command does. One program, which is linked once.

mod broken_inputs;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod data_page;
mod latents;
mod segment;
mod slices;
mod systems;
mod training;

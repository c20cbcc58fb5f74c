//! Saved volumes in fewer bytes: bfloat16, or 8-bit codes with a line for each block of values.

mod entry;
pub(crate) mod quantized;
#[cfg(test)]
mod tests;

pub use entry::{narrow, widen};
pub use quantized::{BLOCK, Quantized};

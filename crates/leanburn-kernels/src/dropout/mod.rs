//! Dropout: values set to zero at random. Which ones is computed, not stored.

mod entry;
pub(crate) mod mask;
#[cfg(test)]
mod tests;

pub use entry::dropout;
pub use mask::DropoutMask;

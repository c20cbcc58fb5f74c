//! Discrete Fourier transforms of real volumes at a few frequencies, and products of spectra frequency by frequency.
//!
//! A truncated transform is a product with a small matrix along each axis: any length, no zeros that are transformed, and a transpose
//! that is the same products backwards. Source of its use:
//! [Fourier Neural Operator](https://arxiv.org/abs/2010.08895).
//!
//! A task takes one channel of one item through all axes in scratch. Spectra are float32: real parts, then imaginary parts.

mod entry;
mod mixing;
pub(crate) mod planes;
mod product;
mod transform;

pub use mixing::{Mixing, Part};
pub use transform::Transform;

#[cfg(test)]
mod tests;

//! Operations with a backward of their own: what autodiff keeps between forward and backward is decided here.
//!
//! - [`recompute`]: run part of a model without keeping its intermediate results, and run it again in backward.
//! - [`Residency`] and [`ResidencyPolicy`]: which named segments of a model are kept and which are run again.
//! - [`random`]: the random stream that makes the second run draw the same numbers as the first.
//! - [`backward`]: gradients of a loss by parameter, on every device, the recording one included.

mod autodiff;
mod gradients;
pub mod random;
mod recompute;
mod residency;

pub use gradients::{Gradients, backward};
pub use recompute::{Tensors, recompute};
pub use residency::{Residency, ResidencyPolicy, ResidencyRule};

//! Gradient of a convolution's weight.

mod channels;
mod dot_products;
mod lanes;
mod outer_products;
mod plan;
mod run;
mod scratch;
mod task;

pub(crate) use lanes::Lanes;
pub use run::weight_gradient;
pub(crate) use run::weight_gradient_on;
pub(crate) use run::workspace;

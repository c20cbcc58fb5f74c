//! Gradient of a convolution's weight.

mod channels;
mod dot_products;
mod lanes;
mod outer_products;
pub(crate) mod plan;
pub(crate) mod run;
mod scratch;
mod task;
#[cfg(test)]
mod tests;
mod transformed;

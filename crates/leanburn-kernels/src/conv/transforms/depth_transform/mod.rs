//! Convolutions, and the gradients of their weights, where outputs read a few neighbours along the depth, by about half the products.
//!
//! A few output planes that read neighbouring input planes are coefficients of a product of polynomials, which takes one
//! product for each coefficient instead of one for each output and element: `Aᵀ (G g ⊙ Bᵀ d)`, the minimal filtering of
//! Toom, Cook and Winograd ([Fast Algorithms for Convolutional Neural Networks](https://arxiv.org/abs/1509.09308)), here
//! along the depth only. So rows and columns may have any stride: the products are summed over channels, rows and columns
//! as in the direct method. They are a gather of their own, whose depth is [`DepthTransform::axis`]. Where the outputs have phases along
//! the depth, as behind an enlargement, each phase has its own.
//!
//! # Numerics
//!
//! Errors are relative to the largest of the planes that are read: about 1e-6 (in the L2 norm) with 64 channels,
//! 1.2e-6 with four elements, less with two. What is
//! not finite spreads to all planes of its group, and of a weight's gradient to all elements along the depth.

mod depth;
mod kernel;
mod mix;
mod pack;
mod polynomials;
#[cfg(test)]
mod tests;

pub(crate) use depth::DepthTransform;
pub(crate) use kernel::KernelTransform;
pub(crate) use mix::{Carried, Mix, MixPlanes};
pub(crate) use pack::PackGroup;
pub(crate) use polynomials::PRODUCTS;

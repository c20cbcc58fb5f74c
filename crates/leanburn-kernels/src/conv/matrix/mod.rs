//! Convolutions of bfloat16 by [products of matrices](crate::tile_products), in tiles of AMX or by dot products of AVX-512.
//!
//! The forward pass and the data gradient (`run`, `pass`) are products of weights, whose rows are output channels, with packed
//! planes (`fill`, `halves`), whose rows are pairs of input channels and whose columns are positions. An element of the kernel is a distance
//! between positions, as in the direct engine; sixteen sums lie beside each other in an output row, so that nothing is transposed.
//!
//! In the weight gradient (`weight_gradient`) the terms are positions, rows are input channels and columns output channels:
//! an element of the kernel shifts the input, and the gradient is transposed once for all of them.

mod fill;
mod halves;
mod pass;
pub(crate) mod run;
mod tiling;
pub(crate) mod weight_gradient;
mod weights;

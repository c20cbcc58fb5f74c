//! Convolutions whose kernel has three rows, by half the products.
//!
//! Four rows of the output that share six rows of the input take six products instead of twelve: `Aᵀ (G g ⊙ Bᵀ d)`, the
//! minimal filtering of Winograd ([Fast Algorithms for Convolutional Neural Networks](https://arxiv.org/abs/1509.09308)),
//! here along the height only, so that depth and width stay as they are: the products are summed over channels and the
//! other elements of the kernel by the same register tiles as in the direct method (`conv::direct`). All transforms are
//! between rows, element by element.
//!
//! # Numerics
//!
//! Errors are relative to the largest of the six rows: about 1e-6 (in the L2 norm) with 64 channels. What is not finite
//! spreads to the four rows of its group.

mod packing;
mod pass;
mod plan;
mod products;
mod run;
#[cfg(test)]
mod tests;
mod tiling;
mod weights;

use crate::conv::transforms::minimal_filter::PRODUCTS;

pub(crate) use run::{pays, run, workspace};

/// Rows of the output in a group.
const OUTPUTS: usize = 4;

/// Rows of the input that a group reads, and the products that they take.
const COMPONENTS: usize = PRODUCTS;

//! The direct engine: tiles of rows and columns that march along the depth.

mod element_sums;
mod pass;
mod plane_sums;
mod run;
mod tiling;

//! Interpolation and average pooling of volumes, and their gradients.
//!
//! All are one thing: a sparse linear map of each axis ([`AxisMap`](crate::axis_map::AxisMap)). For each plane of the
//! output, whole rows of the planes that it sees are summed first, then the width within each row and the height across
//! rows, the one that leaves fewer values first. Rows that the height needs wait in a small ring.

mod combine;
mod entry;
pub(crate) mod planes;
#[cfg(test)]
pub(crate) mod tests;
mod width;

pub use entry::resample;

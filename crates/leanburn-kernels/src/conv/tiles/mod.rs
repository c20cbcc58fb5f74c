//! Register tiles: the inner loops, and transposed blocks.

pub(crate) mod row_sums;
pub(crate) mod tap_sums;
pub(crate) mod transpose;

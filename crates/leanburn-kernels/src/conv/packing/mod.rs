//! Between memory and the register tiles: planes and weights in, finished rows out.

pub(crate) mod ahead;
pub(crate) mod fill;
pub(crate) mod planes;
pub(crate) mod rows;
pub(crate) mod weights;

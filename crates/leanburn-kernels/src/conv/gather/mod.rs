//! What is computed: convolutions and data gradients as sums over channels and kernel elements.

pub(crate) mod axis;
pub(crate) mod problem;

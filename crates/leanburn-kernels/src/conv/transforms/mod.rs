//! Transforms that save products: along the depth, and along the height.

pub(crate) mod depth_transform;
mod minimal_filter;
pub(crate) mod winograd;

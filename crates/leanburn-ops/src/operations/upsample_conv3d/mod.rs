//! Nearest-neighbour enlargement and a convolution behind it, without the enlarged volume: [`upsample_conv3d`].

mod computations;
mod enlargement;
mod folding;
mod operation;

pub(crate) use folding::UpsampleConv;
pub use operation::upsample_conv3d;

//! Group normalisation and activation: [`group_norm_act`], [`norm_prelu`], [`activate`], and what [`conv3d`](super::conv3d)
//! does to its input.
//!
//! A normalised volume is `scale * x + shift` for each channel of an item, regardless of the grouping (`channel_map.rs`).

mod channel_map;
mod composed;
mod forward;
mod gradient;
mod moments;
mod norm;
mod normalization;
mod operation;
mod prelu;
mod statistics;
mod sums;

pub use norm::Norm;
pub use operation::{activate, group_norm_act};
pub use prelu::norm_prelu;

pub(super) use channel_map::SliceMap;
pub(super) use forward::norm_act;
pub(crate) use gradient::NormActGradient;
pub(crate) use moments::{ChannelStatistics, Moments};
pub(crate) use normalization::Normalization;
pub(crate) use prelu::{check_slope, leaky_relu, slope_gradient};
pub(crate) use sums::{ChannelSums, NormActApply, NormActSums};

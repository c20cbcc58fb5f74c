//! Group norm (instance norm and layer norm are its ends) with the activation that follows it.
//!
//! Paper: [Group Normalization](https://arxiv.org/abs/1803.08494).
//!
//! `y = activation(weight * (x - mean) / sqrt(variance + epsilon) + bias)`, with mean and variance over the channels and
//! positions of one group of one item. The norm is never stored: [`group_statistics`] reads the volume once,
//! [`GroupStatistics::scale_and_shift`] turns the norm into one multiplication and addition per value, which the next
//! convolution applies while it reads ([`Prologue`](crate::conv::Prologue)) or [`apply`] writes out;
//! [`group_norm_act_backward`] needs the input and the statistics alone.
//!
//! A volume that is there in parts only is normed all the same: [`group_moments`] and [`group_norm_act_sums`] are of a part and add up,
//! [`group_norm_act_apply`] finishes a part.
//!
//! Volumes are cut into chunks of a fixed number of elements, regardless of the rows; a chunk is a task. Sums are float32
//! within a block that fits the first cache, float64 beyond it, and added in the order of the volume.

pub(crate) mod backward;
mod blocks;
pub(crate) mod derivative;
mod entry;
pub(crate) mod forward;
#[cfg(test)]
pub(crate) mod reference;
mod shape;
pub(crate) mod statistics;

pub use backward::{ChannelSums, Norm};
pub use entry::{
    act_backward, apply, apply_in_place, group_moments, group_norm_act_apply, group_norm_act_backward,
    group_norm_act_sums, group_statistics,
};
pub use shape::NormShape;
pub use statistics::{GroupMoments, GroupStatistics};

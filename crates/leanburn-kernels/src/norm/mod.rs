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
//! Volumes are cut into chunks of a fixed number of elements, regardless of the rows; a chunk is a task. Sums are float32
//! within a block that fits the first cache, float64 beyond it, and added in the order of the volume.

mod backward;
mod blocks;
mod derivative;
mod forward;
#[cfg(test)]
mod reference;
mod shape;
mod statistics;

pub(crate) use backward::Norm;
pub use backward::group_norm_act_backward;
pub use derivative::act_backward;
pub(crate) use derivative::act_backward_on;
pub(crate) use forward::apply_on;
pub use forward::{apply, apply_in_place};
pub use shape::NormShape;
pub(crate) use statistics::group_statistics_on;
pub use statistics::{GroupStatistics, group_statistics};

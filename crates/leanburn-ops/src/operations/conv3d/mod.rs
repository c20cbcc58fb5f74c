//! Convolution with norm, activation and skip folded in: [`norm_act_conv3d`], [`norm_prelu_conv3d`] and [`conv3d`].
//!
//! The operation (`norm_act_conv3d.rs`) is made of four computations, a file each: the forward pass, and the gradients of
//! the input, the weight and the bias. On GPUs the gradient of the input is a convolution too (`data_gradient.rs`). Where the
//! kernel never sees a voxel twice, the CPU multiplies matrices (`patches.rs`).

mod bias_gradient;
mod composed;
mod convolution;
mod data_gradient;
mod entry;
mod forward;
mod norm_act_conv3d;
mod norm_prelu_conv3d;
mod patches;
mod weight_gradient;

pub use convolution::Convolution;
pub use norm_act_conv3d::{conv3d, norm_act_conv3d};
pub use norm_prelu_conv3d::norm_prelu_conv3d;

pub(crate) use bias_gradient::BiasGradient;
pub(crate) use data_gradient::DataGradient;
pub(super) use data_gradient::data_gradient_flops;
pub(crate) use entry::Entry;
pub(crate) use forward::Forward;
pub(crate) use weight_gradient::WeightGradient;
pub(super) use weight_gradient::weight_gradient_workspace;

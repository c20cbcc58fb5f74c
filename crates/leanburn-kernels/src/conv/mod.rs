//! 3D convolution: forward, data gradient (which is the transposed convolution) and weight gradient.

mod axis;
mod bias_gradient;
mod check;
mod data_gradient;
mod depth_transform;
mod dot_products;
mod element_sums;
mod fill;
mod forward;
mod fresh;
mod gather;
mod geometry;
mod outer_products;
mod pack;
mod pass;
mod plane_sums;
mod row_sums;
mod rows;
mod tile;
mod tiling;
mod transpose;
#[cfg(test)]
mod twin;
mod weight_channels;
mod weight_gradient;
mod weight_lanes;
mod weight_plan;
mod weight_scratch;
mod weight_task;
mod weights;
mod winograd;
mod workspace;

pub use bias_gradient::bias_gradient;
pub use data_gradient::data_gradient;
pub use forward::forward;
pub use fresh::{data_gradient_fresh, forward_fresh};
pub use geometry::{ConvShape, Input, Output, Prologue, Residual};
pub use weight_gradient::weight_gradient;
pub use workspace::{data_gradient_workspace, forward_workspace, weight_gradient_workspace};

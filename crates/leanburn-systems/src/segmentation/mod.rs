//! Segmentation: MONAI's `UNet` with residual units, or its `SwinUNETR`, gives every voxel a class.

mod inference;
mod network;
mod norm;
mod objective;
mod section;
mod supervised;
mod swin_unetr;
mod system;
mod unet;
mod workload;

pub use inference::{Segmenter, predict_logits};
pub use network::{Network, NetworkConfig};
pub use norm::NormName;
pub use objective::SegmentationObjectiveSection;
pub use section::{SegmentationNetwork, SegmentationSection};
pub use supervised::SupervisedNetwork;
pub use swin_unetr::SwinUnetrSection;
pub use unet::{UnetActivation, UnetSection};
pub use workload::SegmentationWorkload;

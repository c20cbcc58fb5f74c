//! Segmentation: MONAI's `UNet` with residual units, its `DynUNet`, which is nnU-Net's, or its `SwinUNETR` gives every voxel a class.

mod dyn_unet;
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

pub use dyn_unet::DynUnetSection;
pub use inference::{Segmenter, predict_logits};
pub use network::{Network, NetworkConfig};
pub use norm::NormName;
pub use objective::SegmentationObjectiveSection;
pub use section::{SegmentationNetwork, SegmentationSection};
pub use supervised::SupervisedNetwork;
pub use swin_unetr::SwinUnetrSection;
pub use unet::{UnetActivation, UnetSection};
pub use workload::SegmentationWorkload;

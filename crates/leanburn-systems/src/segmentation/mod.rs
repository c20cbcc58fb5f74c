//! Segmentation: MONAI's `UNet` with residual units gives every voxel a class.

mod inference;
mod objective;
mod section;
mod system;
mod workload;

pub use inference::{Segmenter, predict_logits};
pub use objective::SegmentationObjectiveSection;
pub use section::{SegmentationSection, UnetActivation, UnetNorm};
pub use workload::SegmentationWorkload;

//! What systems share: sections of the configuration with their keys, and how each becomes a part of a training.

mod builders;
mod codebook;
mod data_section;
mod device_section;
mod learner;
mod perceptual;
mod recompute;
mod reconstruction;
mod sequence_section;
mod source;
mod training;
mod validation;
mod voxels;

pub use codebook::CodebookSection;
pub use device_section::{Allocator, DeviceSection, LossScale};
pub use perceptual::{LpipsSection, PerceptualSection};
pub use recompute::Recompute;
pub use source::{Context, Source};
pub use training::{Training, TrainingSection};
pub use voxels::VoxelObjectiveSection;

pub(crate) use builders::with_methods;
pub(crate) use codebook::CodeUse;
pub(crate) use data_section::read_data;
pub(crate) use learner::{drawn, learner, policy, trained_parameters, trainer};
pub(crate) use reconstruction::{exhibit, validate_volumes};
pub(crate) use sequence_section::{first_channel, read_sequence};
pub(crate) use validation::{of_section, reject};

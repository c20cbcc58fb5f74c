//! What systems share: sections of the configuration with their keys, and how each becomes a part of a training.

mod builders;
mod codebook;
mod curves;
mod data_section;
mod device_section;
mod forecast;
mod latents_section;
mod learner;
mod perceptual;
mod recompute;
mod reconstruction;
mod sample;
mod scenes_section;
mod schedule;
mod sequence_section;
mod source;
mod storage;
mod streaming;
mod training;
mod validation;
mod voxels;

pub use codebook::CodebookSection;
pub use device_section::{Allocator, DeviceSection, LossScale};
pub use latents_section::LatentsSection;
pub use perceptual::{LpipsSection, PerceptualSection};
pub use recompute::Recompute;
pub use source::{Context, FirstStage, OpenFirstStage, Source};
pub use storage::{Compression, StorageSection};
pub use streaming::Streaming;
pub use training::{Training, TrainingSection};
pub use voxels::VoxelObjectiveSection;

pub(crate) use builders::with_methods;
pub(crate) use codebook::CodeUse;
pub(crate) use curves::{CODEBOOK, COMMITMENT, DISTANCE, DIVERGENCE, OCCUPANCY, PERCEPTUAL, RECONSTRUCTION};
pub(crate) use data_section::read_data;
pub(crate) use forecast::forecast;
pub(crate) use learner::{learner, policy_and_seed, streamed_only, trained_parameters, trainer};
pub(crate) use reconstruction::{COMPARISON, compared, exhibit, validate_volumes};
pub(crate) use sample::check_shape;
pub(crate) use scenes_section::read_scenes;
pub(crate) use sequence_section::read_sequence;
pub(crate) use validation::{of_section, reject};

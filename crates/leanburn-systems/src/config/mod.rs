//! The configuration of a training run: YAML in, every mistake out at once.
//!
//! ```text
//! text --tree--> nodes with places --overrides--> nodes --reader--> Config --checks--> Config
//!                                                   \___ mistakes, all of them ___/
//! ```
//!
//! A section of the schema is one file: its struct (the documentation of its keys) and its `read`
//! (one line a key: name, default, limits). Nothing else knows the keys: unknown ones are those
//! that no `read` asked for.

mod autoencoder;
mod checks;
mod choice;
mod data;
mod device;
mod document;
mod flat;
mod forecaster;
mod limits;
mod mistake;
mod objective;
mod overrides;
mod reader;
mod recipes;
mod suggest;
mod system;
mod training;
mod tree;
mod values;
mod voxels;

#[cfg(test)]
mod tests;

pub use autoencoder::AutoencoderSection;
pub use device::{Allocator, DeviceSection, LossScale};
pub use document::Config;
pub use forecaster::{ForecastObjectiveSection, ForecasterSection, ModelType};
pub use mistake::{ConfigErrors, Mistake, MistakeKind, Place};
pub use objective::{AutoencoderObjectiveSection, DiscriminatorSection, LpipsSection, PerceptualSection};
pub use recipes::{Recipe, recipes};
pub use system::SystemSection;
pub use training::{Training, TrainingSection};
pub use voxels::{CodebookSection, Vae3dObjectiveSection, Vae3dSection, VaeType, VoxelObjectiveSection, VqVaeSection};

//! Volumes and label maps: values on a grid in space, resampled to another grid, brought to another range.

pub(crate) mod affine;
mod intensity;
mod label_map;
mod memory;
mod orientation;
mod resample;
mod volume;

pub use affine::Affine;
pub use intensity::{Intensity, Normalize};
pub use label_map::LabelMap;
pub(crate) use label_map::MOST_CLASSES;
pub(crate) use memory::{count, reserved, zeros};
pub use orientation::Orientation;
pub(crate) use resample::NewGrid;
pub use volume::Volume;

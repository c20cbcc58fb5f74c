//! Volumes and sequences in, batches out: NIfTI, NRRD, MetaImage, NumPy, safetensors, NetCDF and HDF5 files and DICOM series for training.
//!
//! - [`Volume`] holds one scan in RAS order and reads and writes files.
//! - [`LabelMap`] holds a class for every voxel, for segmentation.
//! - [`DataConfig`] says which volumes and labels to use and how to prepare them.
//! - [`AugmentationConfig`] says how training samples are turned, bent and changed, as nnU-Net does it.
//! - [`SlidingWindow`] takes a volume through a model in overlapping patches.
//! - [`Dataset`] turns an index into a [`Sample`]; [`Loader`] turns samples into [`Batch`]es.
//! - [`SequenceDataset`] turns a [`Sequence`] of fields into [`Window`]s for forecasters, by a
//!   [`SequenceConfig`]; [`Loader::windows`] makes batches of them.
//! - [`SceneDataset`] has road scenes, synthetic or of a folder: images of known cameras, and maps; [`Loader::scenes`] makes batches of them.
//! - [`phantom()`], [`radar()`], [`Advection`] and [`NavierStokes`] are synthetic stand-ins; [`metrics`] compare results.
//!
//! One seed gives one stream of batches, regardless of the number of worker threads.
//!
//! ```
//! use leanburn_data::{DataConfig, Dataset, Loader, PhantomConfig};
//! use std::sync::Arc;
//!
//! let config = DataConfig {
//!     phantom: Some(PhantomConfig { count: 3, shape: [24, 24, 24], noise: 0.02 }),
//!     patch_size: Some([16, 16, 16]),
//!     ..DataConfig::default()
//! };
//! let dataset = Arc::new(Dataset::open(&config, 7)?);
//! let batch = Loader::new(dataset, 2, 0).next().unwrap()?;
//! assert_eq!(batch.shape, [2, 1, 16, 16, 16]);
//! # Ok::<(), leanburn_data::DataError>(())
//! ```

mod augmentation;
mod checks;
mod datasets;
mod error;
mod formats;
mod fourier;
mod loader;
pub mod metrics;
mod random;
mod sampling;
mod scenes;
mod sequences;
mod synthetic;
mod volumes;

pub use augmentation::{AugmentationConfig, Strength};
pub use datasets::{
    Batch, DataConfig, DataMemory, Dataset, HeldOut, LabelsConfig, Prepared, Preview, Progress, Sample, prepare,
};
pub use error::DataError;
pub use formats::{Format, Points, find_volumes, matches};
pub use loader::{BatchOrder, Loader, batches_ahead};
pub use sampling::{Blending, SlidingWindow};
pub use scenes::{NUSCENES_CLASSES, ROAD_CLASSES, SceneBatch, SceneConfig, SceneDataset, SceneMap, SceneSample};
pub use sequences::{
    Advection, AdvectionConfig, Flow, NavierStokes, NavierStokesConfig, Sequence, SequenceConfig, SequenceDataset,
    Window, WindowBatch,
};
pub use synthetic::{PhantomConfig, RadarConfig, phantom, phantom_labels, radar};
pub use volumes::{Affine, Intensity, LabelMap, Normalize, Orientation, Volume};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

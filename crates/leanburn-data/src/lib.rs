//! Volumes and sequences in, batches out: NIfTI, NumPy and safetensors files for training.
//!
//! - [`Volume`] holds one scan in RAS order and reads and writes files.
//! - [`DataConfig`] says which volumes to use and how to prepare them.
//! - [`SlidingWindow`] takes a volume through a model in overlapping patches.
//! - [`Dataset`] turns an index into a [`Sample`]; [`Loader`] turns samples into [`Batch`]es.
//! - [`SequenceDataset`] turns a [`Sequence`] of fields into [`Window`]s for forecasters, by a
//!   [`SequenceConfig`]; [`Loader::windows`] makes batches of them.
//! - [`phantom()`], [`radar()`] and [`Advection`] are synthetic stand-ins; [`metrics`] compare results.
//!
//! One seed gives one stream of batches, whatever the number of worker threads.
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

mod advection;
mod affine;
mod archive;
mod batch;
mod config;
mod dataset;
mod error;
mod file;
mod foreground;
mod format;
mod intensity;
mod loader;
pub mod metrics;
mod mistakes;
mod nifti_file;
mod npz_file;
mod numpy_file;
mod orientation;
mod patch;
mod phantom;
mod prepare;
mod radar;
mod random;
mod resample;
mod safetensors_file;
mod sequence;
mod sequence_config;
mod sequence_dataset;
mod sliding;
mod source;
mod sparse_grid;
mod split;
mod validation;
mod volume;
mod volume_file;
mod window;

pub use advection::{Advection, AdvectionConfig, Flow};
pub use affine::Affine;
pub use batch::{Batch, Sample};
pub use config::{DataConfig, PhantomConfig};
pub use dataset::{Dataset, Progress};
pub use error::DataError;
pub use file::find_volumes;
pub use format::Format;
pub use intensity::{Intensity, Normalize};
pub use loader::Loader;
pub use orientation::Orientation;
pub use phantom::phantom;
pub use prepare::{Prepared, prepare};
pub use radar::{RadarConfig, radar};
pub use sequence::Sequence;
pub use sequence_config::SequenceConfig;
pub use sequence_dataset::SequenceDataset;
pub use sliding::SlidingWindow;
pub use volume::Volume;
pub use window::{Window, WindowBatch};

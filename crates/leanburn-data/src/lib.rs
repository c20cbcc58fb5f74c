//! Volumes in, batches out: NIfTI, NumPy and safetensors volumes for training.
//!
//! - [`Volume`] holds one scan in RAS order and reads and writes files.
//! - [`DataConfig`] says which volumes to use and how to prepare them.
//! - [`SlidingWindow`] takes a volume through a model in overlapping patches.
//! - [`Dataset`] turns an index into a [`Sample`]; [`Loader`] turns samples into [`Batch`]es.
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
mod sliding;
mod source;
mod sparse_grid;
mod split;
mod validation;
mod volume;
mod volume_file;

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
pub use sliding::SlidingWindow;
pub use volume::Volume;

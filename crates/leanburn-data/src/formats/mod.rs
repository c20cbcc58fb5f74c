//! Files of volumes, label maps and arrays: NIfTI, NumPy and safetensors.

mod archive;
mod array;
mod array_volume;
mod file;
mod find;
mod format;
mod nifti;
pub(crate) mod npz;
pub(crate) mod numpy;
mod safetensors;
mod sparse_grid;
mod volume_io;

pub(crate) use archive::Archive;
pub use find::{find_volumes, matches};
pub use format::Format;

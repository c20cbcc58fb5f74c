//! Files of volumes, label maps and arrays: NIfTI, NRRD, MetaImage, NumPy and safetensors, and folders of DICOM slices.

mod archive;
mod array;
mod array_volume;
#[cfg(feature = "dicom")]
mod dicom;
#[cfg(not(feature = "dicom"))]
#[path = "no_dicom.rs"]
mod dicom;
mod file;
mod find;
mod format;
mod nifti;
pub(crate) mod npz;
pub(crate) mod numpy;
mod safetensors;
mod sparse_grid;
mod text_header;
mod volume_io;
mod voxels;

pub(crate) use archive::Archive;
pub use find::{find_volumes, matches};
pub use format::Format;

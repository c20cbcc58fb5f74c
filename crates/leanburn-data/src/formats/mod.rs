//! Files of volumes, label maps and arrays: NIfTI, NRRD, MetaImage, NumPy, safetensors, NetCDF and HDF5, and folders of DICOM slices.

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
#[cfg(feature = "hdf5")]
mod hdf5;
#[cfg(not(feature = "hdf5"))]
#[path = "no_hdf5.rs"]
mod hdf5;
mod nifti;
pub(crate) mod npz;
pub(crate) mod numpy;
mod points;
mod safetensors;
mod sparse_grid;
mod text_header;
mod volume_io;
mod voxels;

pub(crate) use archive::Archive;
pub(crate) use array::Array;
pub use find::{find_volumes, matches};
pub use format::Format;
pub use points::Points;

//! What is said of NetCDF and HDF5 files by a build without the feature `hdf5`.

use crate::error::DataError;
use crate::formats::array::Array;
use std::path::Path;

/// No file can be opened.
pub(crate) enum Hdf5 {}

impl Hdf5 {
    /// # Errors
    /// That this build reads none.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let remedy = "Save its arrays with numpy.savez, or build leanburn-data with its feature `hdf5`.";
        Err(DataError::malformed("a format that this build reads", "NetCDF or HDF5", remedy).at(path))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, DataError> {
        match *self {}
    }

    pub(crate) fn fields(&self) -> Result<Vec<String>, DataError> {
        match *self {}
    }

    pub(crate) fn read<T>(&self, _name: &str, _cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        match *self {}
    }
}

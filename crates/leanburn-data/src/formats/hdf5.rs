//! NetCDF-3, NetCDF-4 and HDF5 files (those of h5py, netCDF4 and MATLAB 7.3 among them), by the crate `netcdf-reader`, which is
//! Rust alone.

use crate::error::DataError;
use crate::formats::array::Array;
use crate::formats::file::{self, LARGEST_EXPANSION};
use crate::volumes::reserved;
use netcdf_reader::{Error, NcFile, NcGroup, NcType, NcVariable};
use std::fs;
use std::path::{Path, PathBuf};

const SAVE_AGAIN: &str = "Copy it again, or save its arrays again with h5py, netCDF4 or numpy.savez.";

/// An opened file; its variables are decoded when they are asked for.
pub(crate) struct Hdf5 {
    path: PathBuf,
    file: NcFile,
    length: u64,
}

impl Hdf5 {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let length = fs::metadata(path).map_err(|error| DataError::io(path, "read", error))?.len();
        let file = NcFile::open(path).map_err(|error| damaged(path, error))?;
        Ok(Self { path: path.into(), file, length })
    }

    /// Paths of the variables that hold numbers, those of the root without a slash.
    pub(crate) fn names(&self) -> Result<Vec<String>, DataError> {
        self.listed(|_| true)
    }

    /// The same of those that are not a list of coordinates or a single number.
    pub(crate) fn fields(&self) -> Result<Vec<String>, DataError> {
        self.listed(|variable| variable.ndim() > 1)
    }

    fn listed(&self, counts: fn(&NcVariable) -> bool) -> Result<Vec<String>, DataError> {
        let root = self.file.root_group().map_err(|error| damaged(&self.path, error))?;
        let mut names = Vec::new();
        list(root, "", counts, &mut names);
        Ok(names)
    }

    /// Every value as a 64-bit float, unpacked by `scale_factor` and `add_offset`, and then through `cast`; what `_FillValue`,
    /// `missing_value` or `valid_range` say is missing is not a number.
    pub(crate) fn read<T>(&self, name: &str, cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        let failed = |error| damaged(&self.path, error);
        let shape = self.file.variable(name).map_err(failed)?.shape();
        let bytes = shape.iter().try_fold(1_u64, |total, length| total.checked_mul(*length));
        // A header may lie about a size; the file on the disk cannot.
        if bytes.is_none_or(|bytes| bytes > self.length.saturating_mul(LARGEST_EXPANSION)) {
            let found = format!("a file of {} bytes", self.length);
            return Err(DataError::malformed(format!("the values of `{name}`, {shape:?}"), found, SAVE_AGAIN));
        }
        let values = self.file.read_variable_unpacked_masked(name).map_err(failed)?;
        let shape = values.shape().to_vec();
        let mut cast_values = reserved(&shape, values.len())?;
        cast_values.extend(values.iter().map(|value| cast(*value)));
        Ok(Array { shape, values: cast_values })
    }
}

fn list(group: &NcGroup, above: &str, counts: fn(&NcVariable) -> bool, names: &mut Vec<String>) {
    let numeric = |variable: &&NcVariable| {
        variable.dtype().is_primitive() && !matches!(variable.dtype(), NcType::Char | NcType::String)
    };
    let variables = group.variables.iter().filter(numeric).filter(|variable| counts(variable));
    names.extend(variables.map(|variable| format!("{above}{}", variable.name())));
    group.groups.iter().for_each(|below| list(below, &format!("{above}{}/", below.name), counts, names));
}

fn damaged(path: &Path, error: Error) -> DataError {
    match error {
        Error::Io(error) => file::read_failed(path, error),
        Error::InvalidMagic => {
            let found = "a file that begins otherwise";
            let remedy = "If it is a MATLAB file, save it as version 7.3.";
            DataError::malformed("a NetCDF or HDF5 file", found, remedy).at(path)
        }
        other => DataError::malformed("a whole NetCDF or HDF5 file", other.to_string(), SAVE_AGAIN).at(path),
    }
}

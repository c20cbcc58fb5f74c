//! Files of arrays, regardless of their format: `.npy`, `.npz`, `.safetensors`, NetCDF and HDF5.

use crate::error::DataError;
use crate::formats::array::Array;
use crate::formats::file::{self, Source};
use crate::formats::format::Format;
use crate::formats::hdf5::Hdf5;
use crate::formats::npz::Npz;
use crate::formats::numpy;
use crate::formats::safetensors::Safetensors;
use leanburn_common::nearest;
use std::path::{Path, PathBuf};

/// An opened file; its arrays are decoded when they are asked for.
pub(crate) enum Archive {
    /// One array that has no name.
    Numpy(PathBuf),
    Npz(Npz),
    Safetensors(Safetensors),
    Hdf5(Hdf5),
}

impl Archive {
    /// # Errors
    /// If the file is missing, damaged, or no file of arrays.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        match Format::of(path)? {
            Format::Numpy => Ok(Self::Numpy(path.into())),
            Format::Npz => Npz::open(path).map(Self::Npz),
            Format::Safetensors => Safetensors::open(path).map(Self::Safetensors),
            Format::Hdf5 => Hdf5::open(path).map(Self::Hdf5),
            _ => Err(DataError::malformed(
                "a .npy, .npz, .safetensors, .nc or .h5 file",
                "an image, such as NIfTI",
                "Save its values as an array.",
            )),
        }
    }

    /// Whether its one array has no name.
    pub(crate) fn is_unnamed(&self) -> bool {
        matches!(self, Self::Numpy(_))
    }

    fn names(&self) -> Result<Vec<String>, DataError> {
        match self {
            Self::Numpy(_) => Ok(vec![String::new()]),
            Self::Npz(file) => Ok(file.names()),
            Self::Safetensors(file) => file.names(),
            Self::Hdf5(file) => file.names(),
        }
    }

    pub(crate) fn holds(&self, name: &str) -> Result<bool, DataError> {
        Ok(self.names()?.iter().any(|known| known == name))
    }

    /// The array of that name, every value as a 64-bit float and then through `cast`.
    pub(crate) fn array<T: Clone>(&mut self, name: &str, cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        if !self.holds(name)? {
            return Err(self.without(name)?);
        }
        match self {
            Self::Numpy(path) => {
                let Source { mut reader, at_most } = file::open(path)?;
                numpy::read(path, &mut *reader, at_most, cast)
            }
            Self::Npz(file) => file.read(name, cast),
            Self::Safetensors(file) => file.read(name, cast),
            Self::Hdf5(file) => file.read(name, cast),
        }
    }

    /// The error of a file without an array of that name, which says what there is, the nearest first.
    fn without(&self, name: &str) -> Result<DataError, DataError> {
        let names = self.names()?;
        let found = match nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("`{nearest}`, of {names:?}"),
            None => format!("{names:?}"),
        };
        Ok(DataError::malformed(format!("an array `{name}`"), found, "Name one of them, or save it under that name."))
    }

    /// The array of that name, or the only one of the file.
    pub(crate) fn array_or_only<T: Clone>(&mut self, name: &str, cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        let names = match self {
            // The others are what the axes of these mean.
            Self::Hdf5(file) => file.fields()?,
            _ => self.names()?,
        };
        match (&names[..], self.holds(name)?) {
            (_, true) => self.array(name, cast),
            ([only], false) => self.array(only, cast),
            _ => {
                let found = match names.len() {
                    1..=20 => format!("{} arrays, none of that name: {names:?}", names.len()),
                    count => format!("{count} arrays, none of that name"),
                };
                let expected = format!("an array `{name}`, or one array alone");
                Err(DataError::malformed(expected, found, "Save the array under that name."))
            }
        }
    }
}

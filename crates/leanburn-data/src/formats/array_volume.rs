//! Volumes in files of arrays: dense, or the occupied voxels of a sparse grid alone.

use crate::error::DataError;
use crate::formats::archive::Archive;
use crate::formats::array::{AFFINE, VOLUME};
use crate::formats::sparse_grid;
use crate::volumes::Volume;
use crate::volumes::affine::{Affine, IDENTITY};
use std::path::Path;

const SAVE_AGAIN: &str = "Save one array named `volume`, of shape [channels, x, y, z].";

/// Reads the array `volume`, or the arrays of a sparse grid, or the only array.
pub(crate) fn read(path: &Path) -> Result<Volume, DataError> {
    let mut archive = Archive::open(path)?;
    if !archive.holds(VOLUME)? && archive.holds(sparse_grid::COORDINATES)? {
        let (values, shape) = sparse_grid::read(&mut archive)?;
        return Volume::new(values, shape, read_affine(&mut archive)?);
    }
    let array = archive.array_or_only(VOLUME, |value| value as f32)?;
    let shape = match array.shape[..] {
        [x, y, z] => [1, x, y, z],
        [channels, x, y, z] => [channels, x, y, z],
        ref other => {
            let expected = "a shape of 3 axes [x, y, z] or 4 [channels, x, y, z]";
            return Err(DataError::malformed(expected, format!("{other:?}"), SAVE_AGAIN));
        }
    };
    Volume::new(array.values, shape, read_affine(&mut archive)?)
}

fn read_affine(archive: &mut Archive) -> Result<Affine, DataError> {
    let mut affine = IDENTITY;
    if archive.holds(AFFINE)? {
        let array = archive.array(AFFINE, |value| value)?;
        if array.shape != [4, 4] {
            let found = format!("shape {:?}", array.shape);
            return Err(DataError::malformed("an `affine` of shape [4, 4]", found, SAVE_AGAIN));
        }
        affine.as_flattened_mut().copy_from_slice(&array.values);
    }
    Ok(affine)
}

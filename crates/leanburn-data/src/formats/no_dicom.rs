//! What is said of DICOM series by a build without the feature `dicom`.

use crate::error::DataError;
use crate::volumes::Volume;
use std::path::Path;

/// # Errors
/// That this build reads none.
pub(super) fn read(folder: &Path) -> Result<Volume, DataError> {
    let remedy = "Convert the series to NIfTI, as with dcm2niix, or build leanburn-data with its feature `dicom`.";
    Err(DataError::malformed("a file", "a folder", remedy).at(folder))
}

/// None is looked for.
pub(super) fn is_slice(_: &Path) -> bool {
    false
}

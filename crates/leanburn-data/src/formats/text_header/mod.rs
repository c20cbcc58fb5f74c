//! Files with a header of text lines and the voxels behind it or in a file of their own: NRRD and MetaImage.

mod image;
mod lines;
mod meta_image;
mod nrrd;
mod write;

use crate::error::DataError;
use crate::volumes::Volume;
use std::path::Path;

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextHeader {
    /// [NRRD](https://teem.sourceforge.net/nrrd/format.html), as 3D Slicer writes it.
    Nrrd,
    /// [MetaImage](https://itk.org/Wiki/ITK/MetaIO/Documentation), as ITK writes it.
    MetaImage,
}

pub(crate) use write::{write, write_labels};

/// Reads a volume and brings it to RAS order; errors name the file that is wrong, the header or that of the voxels.
pub(crate) fn read(path: &Path, format: TextHeader) -> Result<Volume, DataError> {
    let mut lines = lines::Lines::open(path)?;
    let image = match format {
        TextHeader::Nrrd => nrrd::image(&mut lines),
        TextHeader::MetaImage => meta_image::image(&mut lines),
    };
    image.map_err(|error| error.at(path))?.read(path, lines)
}

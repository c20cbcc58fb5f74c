//! The kinds of file that hold a volume, known by the end of the name.

use crate::error::DataError;
use std::path::Path;

/// The kinds of file that hold a volume, known by the end of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `.nii`, or `.nii.gz` for the packed form.
    Nifti {
        /// Whether a written file is packed.
        gzip: bool,
    },
    /// `.npy`, NumPy's array file.
    Numpy,
    /// `.npz`, several of NumPy's arrays in one file.
    Npz,
    /// `.safetensors`.
    Safetensors,
}

impl Format {
    /// The kind of file that `path` names; the file need not exist.
    ///
    /// # Errors
    /// If the name ends like none of them.
    pub fn of(path: &Path) -> Result<Self, DataError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let endings = [
            (".nii", Self::Nifti { gzip: false }),
            (".nii.gz", Self::Nifti { gzip: true }),
            (".npy", Self::Numpy),
            (".npz", Self::Npz),
            (".safetensors", Self::Safetensors),
        ];
        let format = endings.iter().find(|(ending, _)| name.ends_with(ending));
        format.map(|(_, format)| *format).ok_or_else(|| DataError::UnknownFormat { path: path.into() })
    }
}

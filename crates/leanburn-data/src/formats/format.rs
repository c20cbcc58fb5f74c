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
    /// `.hdr`, with the voxels in an `.img` (or `.img.gz`) beside it; read, not written.
    NiftiPair,
    /// `.npy`, NumPy's array file.
    Numpy,
    /// `.npz`, several of NumPy's arrays in one file.
    Npz,
    /// `.safetensors`.
    Safetensors,
    /// `.nc`, `.h5` and their like: NetCDF and HDF5, and what MATLAB saves as version 7.3; read, not written.
    Hdf5,
    /// `.nrrd`, header and voxels in one file.
    Nrrd,
    /// `.nhdr`, with the voxels in a file beside it; read, not written.
    NrrdHeader,
    /// `.mha`, a MetaImage in one file.
    MetaImage,
    /// `.mhd`, with the voxels in a file beside it; read, not written.
    MetaImageHeader,
}

/// How the names of volumes end; a longer ending goes before a shorter one that it contains.
const ENDINGS: [(&str, Format); 15] = [
    (".nii.gz", Format::Nifti { gzip: true }),
    (".nii", Format::Nifti { gzip: false }),
    (".hdr", Format::NiftiPair),
    (".npy", Format::Numpy),
    (".npz", Format::Npz),
    (".safetensors", Format::Safetensors),
    (".nc", Format::Hdf5),
    (".nc4", Format::Hdf5),
    (".h5", Format::Hdf5),
    (".hdf5", Format::Hdf5),
    (".mat", Format::Hdf5),
    (".nrrd", Format::Nrrd),
    (".nhdr", Format::NrrdHeader),
    (".mha", Format::MetaImage),
    (".mhd", Format::MetaImageHeader),
];

impl Format {
    /// A file's name without the ending that says its kind; the whole name if it says none.
    pub fn stem(name: &str) -> &str {
        let lower = name.to_lowercase();
        let ending = ENDINGS.iter().find(|(ending, _)| lower.ends_with(ending));
        let length = ending.map_or(0, |(ending, _)| ending.len());
        name.get(..name.len() - length).unwrap_or(name)
    }

    /// The kind of file that `path` names; the file need not exist.
    ///
    /// # Errors
    /// If the name ends like none of them.
    pub fn of(path: &Path) -> Result<Self, DataError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let format = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        format.map(|(_, format)| *format).ok_or_else(|| DataError::UnknownFormat { path: path.into() })
    }

    /// The kind of file that may be written to `path`.
    ///
    /// # Errors
    /// If the name ends like none of them, or like one that is only read.
    pub fn of_output(path: &Path) -> Result<Self, DataError> {
        let format = Self::of(path)?;
        let found = match format {
            Self::Hdf5 => "that of a format that is read and not written",
            _ if format.whole() != format => "that of a header whose voxels are in another file",
            _ => return Ok(format),
        };
        let expected = "a name that ends in .nii, .nii.gz, .nrrd, .mha, .npy, .npz or .safetensors";
        Err(DataError::malformed(expected, found, "Write one file, such as .nii: it has the same contents.").at(path))
    }

    /// The format of one file that holds what this one does: what is written for a header with its voxels in another file, and for a
    /// format that is not written.
    fn whole(self) -> Self {
        match self {
            Self::NiftiPair => Self::Nifti { gzip: false },
            Self::NrrdHeader => Self::Nrrd,
            Self::MetaImageHeader => Self::MetaImage,
            Self::Hdf5 => Self::Npz,
            format => format,
        }
    }

    /// How the name of a file ends that is made of the volume at `path`, where it cannot have the same name: of a header with its
    /// voxels in another file, of a format that is not written, and of a folder of DICOM slices.
    pub fn output_ending(path: &Path) -> Option<&'static str> {
        let Ok(format) = Self::of(path) else { return path.is_dir().then_some(".nii.gz") };
        let whole = format.whole();
        let ending = ENDINGS.iter().find(|(_, known)| *known == whole);
        ending.filter(|_| whole != format).map(|(ending, _)| *ending)
    }

    /// Whether a label map can be written in it: what keeps whole numbers on their grid.
    pub fn holds_labels(self) -> bool {
        matches!(self, Self::Nifti { .. } | Self::Nrrd | Self::MetaImage)
    }
}

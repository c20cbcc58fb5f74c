//! What can go wrong between a file and a batch.

use leanburn_common::ValidationError;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong between a file and a batch. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// No file or folder of this name exists.
    #[error("{}: not found. Check the path, or that its disk is mounted.", path.display())]
    NotFound {
        /// The missing file or folder.
        path: PathBuf,
    },
    /// The operating system could not read or write.
    #[error("{}: cannot {action}: {source}. Check the permissions and the free space.", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as "read".
        action: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// The file name does not end like a volume.
    #[error(
        "{}: unknown kind of file. Expected a name that ends in .nii, .nii.gz, .hdr, .nrrd, .nhdr, .mha, .mhd, .npy, .npz, \
         .safetensors, .nc, .h5 or .mat, or the folder of a DICOM series; convert the file, or rename it.", path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A folder holds no volume.
    #[error(
        "{}: no volume in this folder or below it. Expected files that end in .nii, .nii.gz, .hdr, .nrrd, .nhdr, .mha, .mhd, .npy, \
         .npz, .safetensors, .nc, .h5 or .mat, or DICOM slices; point `paths` at the folder that has them.", path.display()
    )]
    NoVolumes {
        /// The folder.
        path: PathBuf,
    },
    /// The contents are not a volume that can be read.
    #[error("{}: expected {expected}, found {}. {remedy}", path.display(), brief(found))]
    Malformed {
        /// The file, or "volume in memory".
        path: PathBuf,
        /// What a sound volume has.
        expected: String,
        /// What this one has.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Some values are infinite or not a number.
    #[error(
        "{}: expected finite 32-bit values, found {count} that are not, the first ({value}) at {place}. \
         Mask or replace them before training.", path.display()
    )]
    NotFinite {
        /// The file, or "volume in memory".
        path: PathBuf,
        /// Where the first such value is: channel and RAS voxel, or time, channel, row and column.
        place: String,
        /// The first such value.
        value: f32,
        /// How many there are.
        count: usize,
    },
    /// A volume does not go together with the others.
    #[error("{}: expected {expected}, found {}. {remedy}", path.display(), brief(found))]
    Mismatch {
        /// The volume that differs.
        path: PathBuf,
        /// What the others have.
        expected: String,
        /// What this one has.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The machine has no room for so many values.
    #[error("{}: no memory for {values} values of shape {}. Use a smaller grid or patch.", path.display(), brief(&format!("{shape:?}")))]
    TooLarge {
        /// The file that says so, or "volume in memory".
        path: PathBuf,
        /// The shape that was asked for.
        shape: Vec<usize>,
        /// Its number of values, or the word "too many" where it has no 64-bit number.
        values: String,
    },
    /// The configuration is not valid.
    #[error("the data configuration is not valid:\n{}", lines(errors))]
    Config {
        /// Every validation error.
        errors: Vec<ValidationError>,
    },
    /// An index past the end.
    #[error("expected {expected}, found {found}. Ask for an index within the range.")]
    OutOfRange {
        /// The range.
        expected: String,
        /// The index.
        found: String,
    },
    /// A thread that makes batches stopped with a panic.
    #[error("batch {batch}: a data worker panicked: {message}. This is a defect of the program; please report it.")]
    WorkerPanicked {
        /// Index of the batch.
        batch: u64,
        /// What the panic said.
        message: String,
    },
}

/// Where a volume is that no file holds.
const IN_MEMORY: &str = "volume in memory";

/// The most characters of what a file holds that a message repeats.
const MOST_FOUND: usize = 200;

/// What a file holds, short enough to be read: a broken header can name hundreds of thousands of axes.
fn brief(found: &str) -> Cow<'_, str> {
    match found.char_indices().nth(MOST_FOUND) {
        Some((end, _)) => format!("{} ... ({} characters)", &found[..end], found.chars().count()).into(),
        None => found.into(),
    }
}

fn lines(errors: &[ValidationError]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("  {error}; {}", error.help)).collect();
    lines.join("\n")
}

impl DataError {
    /// Whether a file or folder is missing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether a file's contents (not its place or name) are at fault.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::NotFinite { .. })
    }

    /// Whether values were infinite or not a number.
    pub fn is_not_finite(&self) -> bool {
        matches!(self, Self::NotFinite { .. })
    }

    /// Whether the settings are at fault.
    pub fn is_config(&self) -> bool {
        matches!(self, Self::Config { .. })
    }

    /// Whether there was no memory for what was asked.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    /// The error of volumes that have no labels where labels are needed.
    pub fn without_labels() -> Self {
        let expected = "volumes with labels";
        Self::malformed(expected, "volumes alone", "Name `label_maps` or `class_maps` in the `labels` of the data.")
    }

    /// An error if there are validation errors.
    pub(crate) fn if_invalid(errors: Vec<ValidationError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Config { errors }) }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path: path.into() },
            _ => Self::Io { path: path.into(), action, source },
        }
    }

    pub(crate) fn malformed(expected: impl Into<String>, found: impl Into<String>, remedy: &'static str) -> Self {
        Self::Malformed { path: IN_MEMORY.into(), expected: expected.into(), found: found.into(), remedy }
    }

    pub(crate) fn too_large(shape: &[usize], values: impl ToString) -> Self {
        Self::TooLarge { path: IN_MEMORY.into(), shape: shape.to_vec(), values: values.to_string() }
    }

    /// The same error, with the file at `path` named.
    pub fn at(mut self, place: &Path) -> Self {
        if let Self::Malformed { path, .. } | Self::NotFinite { path, .. } | Self::TooLarge { path, .. } = &mut self {
            *path = place.into();
        }
        self
    }
}

//! The errors of reporting.

use std::path::{Path, PathBuf};

/// Why a report, a log or a picture could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb: "read", "write", "create".
        action: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// The reason that the system gives.
        source: std::io::Error,
    },
    /// A fresh run would overwrite the metrics of an older one.
    #[error(
        "{} already holds the metrics of a run: resume that run, or choose another run folder",
        path.display()
    )]
    MetricsExist {
        /// The metrics file.
        path: PathBuf,
    },
    /// A line of a metrics file, not its last, is no record.
    #[error(
        "{}, line {line}: expected a JSON record {{\"step\", \"phase\", \"seconds\", \"values\"}}; \
         delete or mend that line",
        path.display()
    )]
    BrokenRecord {
        /// The metrics file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser found.
        source: serde_json::Error,
    },
    /// A volume does not have the voxels that its shape promises, or is too long to draw.
    #[error(
        "cannot draw the {volume}: its shape {shape:?} needs {expected} voxels with sides of \
         1 to {longest}, found {found} voxels"
    )]
    VolumeShape {
        /// Which of the two volumes: "original" or "reconstruction".
        volume: &'static str,
        /// The shape that was given.
        shape: [usize; 3],
        /// The voxels of that shape, or "too many" when their count overflows.
        expected: String,
        /// The voxels that were given.
        found: usize,
        /// The longest side that is drawn.
        longest: usize,
    },
    /// A picture could not be encoded, or is no PNG.
    #[error("cannot encode or decode a PNG picture")]
    Picture(#[from] image::ImageError),
    /// The HTML page could not be rendered.
    #[error("cannot render the HTML report")]
    Template(#[from] askama::Error),
}

impl ReportError {
    /// Turns an error of the file system into one that names the action and the path.
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
        let path = path.to_path_buf();
        move |source| ReportError::File { action, path, source }
    }
}

//! The errors of reporting.

use std::path::{Path, PathBuf};

/// Why a report, a log or a picture could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file system rejected.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb: "read", "write", "create".
        action: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// The reason that the system gives.
        source: std::io::Error,
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

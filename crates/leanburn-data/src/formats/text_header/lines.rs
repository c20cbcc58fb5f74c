//! The lines of a header, and what is read behind them.

use crate::error::DataError;
use crate::formats::file;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A longer header is taken for a file of another kind.
const LONGEST_HEADER: u64 = 1 << 20;

/// An opened file whose header is read line by line.
pub(super) struct Lines {
    path: PathBuf,
    pub(super) reader: BufReader<File>,
    /// Length of the file.
    pub(super) length: u64,
    /// Bytes that are read.
    pub(super) passed: u64,
}

impl Lines {
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |error| DataError::io(path, "read", error);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.into(), reader: BufReader::with_capacity(1 << 16, file), length, passed: 0 })
    }

    /// The next line, without its end; none at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or the header has no end.
    pub(super) fn next(&mut self) -> Result<Option<String>, DataError> {
        let mut line = Vec::new();
        let room = LONGEST_HEADER.saturating_sub(self.passed);
        let read = (&mut self.reader).take(room).read_until(b'\n', &mut line);
        self.passed += read.map_err(|error| file::read_failed(&self.path, error))? as u64;
        if self.passed >= LONGEST_HEADER {
            let expected = format!("a header of text in the first {LONGEST_HEADER} bytes");
            return Err(DataError::malformed(expected, "none that ends", "Copy or download the file again."));
        }
        if line.is_empty() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        Ok(Some(line.trim_end_matches(['\n', '\r']).to_string()))
    }
}

/// Numbers with spaces between them.
///
/// # Errors
/// If a part of `text` is no finite number; `name` says whose value it is.
pub(super) fn numbers(name: &str, text: &str) -> Result<Vec<f64>, DataError> {
    let number = |part: &str| part.parse().ok().filter(|number: &f64| number.is_finite());
    text.split_whitespace()
        .map(|part| number(part).ok_or_else(|| malformed(name, "numbers", text)))
        .collect::<Result<Vec<f64>, _>>()
}

/// Lengths of axes, each at least 1.
pub(super) fn lengths(name: &str, text: &str) -> Result<Vec<usize>, DataError> {
    let length = |part: &str| part.parse().ok().filter(|length: &usize| *length > 0);
    text.split_whitespace()
        .map(|part| length(part).ok_or_else(|| malformed(name, "lengths of axes, from 1", text)))
        .collect::<Result<Vec<usize>, _>>()
}

/// A field of the header with a value that cannot be used.
pub(super) fn malformed(name: &str, expected: &str, found: &str) -> DataError {
    let found = format!("{:?}", found.chars().take(80).collect::<String>());
    DataError::malformed(format!("`{name}` with {expected}"), found, "Export the volume again, or as NIfTI (.nii.gz).")
}

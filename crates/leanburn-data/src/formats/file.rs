//! Opening files for reading, packed by gzip or not, and replacing them whole.

use crate::error::DataError;
use flate2::bufread::MultiGzDecoder;
use leanburn_common::atomic;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// The most that one byte of a gzip file can expand to (the limit of the deflate format).
pub(crate) const LARGEST_EXPANSION: u64 = 1032;

/// An opened file, unpacked where it is gzip, with an upper bound of its unpacked length.
pub(crate) struct Source {
    pub(crate) reader: Box<dyn Read>,
    pub(crate) at_most: u64,
}

/// Opens a file for reading; its first bytes, not its name, say whether it is gzip.
pub(crate) fn open(path: &Path) -> Result<Source, DataError> {
    let failed = |error| DataError::io(path, "read", error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    (&mut file).take(2).read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let file = BufReader::with_capacity(1 << 16, file);
    Ok(match start[..] {
        [0x1f, 0x8b] => {
            Source { reader: Box::new(MultiGzDecoder::new(file)), at_most: length.saturating_mul(LARGEST_EXPANSION) }
        }
        _ => Source { reader: Box::new(file), at_most: length },
    })
}

/// Distinguishes two errors of reading: damaged contents, and an error of the system.
pub(crate) fn read_failed(path: &Path, error: io::Error) -> DataError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            DataError::malformed(
                "a whole file",
                format!("one that is cut short or damaged ({error})"),
                "Copy or download it again.",
            )
            .at(path)
        }
        _ => DataError::io(path, "read", error),
    }
}

/// Lets `write` fill a temporary file, given open and by name, that then takes the place of `path`.
///
/// # Errors
/// As [`atomic::replace`].
pub(crate) fn replace(
    path: &Path,
    suffix: &str,
    write: impl FnOnce(&mut File, &Path) -> io::Result<()>,
) -> Result<(), DataError> {
    atomic::replace(path, suffix, write).map_err(|error| DataError::io(path, "write", error))
}

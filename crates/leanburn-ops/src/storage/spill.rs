//! An unlinked file that holds the bytes of a tensor, around the system's cache of files where that is possible.
//!
//! Through the cache each byte is copied into pages that the system has to find and to clear first, on the cores that compute; and where
//! memory is limited, these pages count. Large tensors go past it (`O_DIRECT`), in pieces by way of one small aligned buffer.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::Path;

/// What addresses, lengths and places in the file are multiples of: at least the block of any disk.
const ALIGNMENT: usize = 4096;

/// Bytes that are written or read at once. After each the thread waits for a core, where all of them compute.
const PIECE: usize = 1024 * 1024;

/// Bytes of the smallest tensor that goes around the cache.
const LEAST: usize = 4 * PIECE;

/// A file without a name: it is gone with its handle, also where the process is killed.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    is_direct: bool,
}

impl Spill {
    /// Writes bytes into a new file in `folder`.
    pub(super) fn write(folder: &Path, bytes: &[u8]) -> io::Result<Self> {
        if bytes.len() >= LEAST
            && let Some(file) = direct(folder)
        {
            match write_direct(&file, bytes) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {} // the file system has it open and does not do it
                written => return written.map(|()| Self { file, is_direct: true }),
            }
        }
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(bytes)?;
        Ok(Self { file, is_direct: false })
    }

    /// Reads as many bytes as were written.
    pub(super) fn read(mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.file.rewind()?;
        match self.is_direct {
            true => read_direct(&self.file, bytes),
            false => self.file.read_exact(bytes),
        }
    }
}

/// A file without a name and without the cache; none where the file system does not have both.
#[cfg(target_os = "linux")]
fn direct(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = libc::O_TMPFILE | libc::O_DIRECT;
    File::options().read(true).write(true).mode(0o600).custom_flags(flags).open(folder).ok()
}

#[cfg(not(target_os = "linux"))]
fn direct(_folder: &Path) -> Option<File> {
    None
}

/// A piece in memory that may be read and written directly.
struct Piece(Vec<u8>);

impl Piece {
    fn new() -> Self {
        Self(vec![0; PIECE + ALIGNMENT])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[start..][..PIECE]
    }
}

fn write_direct(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut piece = Piece::new();
    for bytes in bytes.chunks(PIECE) {
        let piece = &mut piece.bytes()[..bytes.len().next_multiple_of(ALIGNMENT)];
        piece[..bytes.len()].copy_from_slice(bytes);
        file.write_all(piece)?;
    }
    Ok(())
}

fn read_direct(mut file: &File, bytes: &mut [u8]) -> io::Result<()> {
    let mut piece = Piece::new();
    for bytes in bytes.chunks_mut(PIECE) {
        let piece = &mut piece.bytes()[..bytes.len().next_multiple_of(ALIGNMENT)];
        file.read_exact(piece)?;
        bytes.copy_from_slice(&piece[..bytes.len()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let folder = std::env::temp_dir();
        for len in [0, 1, PIECE, LEAST - 1, LEAST, LEAST + 1, LEAST + PIECE + ALIGNMENT - 1, LEAST + 3 * PIECE + 5] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
            let spill = Spill::write(&folder, &bytes).unwrap();
            assert!(!spill.is_direct || len >= LEAST, "{len}");
            let mut found = vec![0; len];
            spill.read(&mut found).unwrap();
            assert!(found == bytes, "{len}");
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error() {
        let spill = Spill::write(&std::env::temp_dir(), &vec![1; LEAST]).unwrap();
        spill.file.set_len(LEAST as u64 / 2).unwrap();
        assert_eq!(spill.read(&mut vec![0; LEAST]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

//! An unlinked file that holds the values of a tensor, around the system's cache of files where that is possible.
//!
//! Through the cache each byte is copied into pages that the system has to find and to clear first, on the cores that compute; and where
//! memory is limited, these pages count. Large tensors go past it (`O_DIRECT`): they are written from where they lie, and read by way of
//! a small buffer, from which memory is filled that nobody has to clear first.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::Path;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

/// What addresses, lengths and places in the file are multiples of: at least the block of any disk.
const PAGE: usize = 4096;

/// Bytes that are read at once.
const PIECE: usize = 1024 * 1024;

/// Bytes of the smallest tensor that goes around the cache.
const LEAST: usize = 4 * PIECE;

/// A file without a name: it is gone with its handle, also where the process is killed.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    /// Where in the file the values begin: as far into a page as they were in memory.
    start: usize,
}

impl Spill {
    /// Writes values into a new file in `folder`.
    pub(super) fn write<E: Pod>(folder: &Path, values: &[E]) -> io::Result<Self> {
        let bytes: &[u8] = cast_slice(values);
        let start = bytes.as_ptr() as usize % PAGE;
        if bytes.len() >= LEAST
            && let Some(file) = direct(folder)
        {
            match write_direct(&file, bytes, start) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {} // the file system has it open and does not do it
                written => return written.map(|()| Self { file, start }),
            }
        }
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len().next_multiple_of(PAGE) as u64)?; // read in pages, as the other
        Ok(Self { file, start: 0 })
    }

    /// Reads as many values as were written.
    pub(super) fn read<E: Pod>(mut self, mut room: Vec<E>, count: usize) -> io::Result<Vec<E>> {
        self.file.rewind()?;
        room.reserve_exact(count);
        if count * size_of::<E>() < LEAST {
            // clearing so little stays in the processor's cache
            room.resize(count, E::zeroed());
            self.file.read_exact(cast_slice_mut(&mut room))?;
            return Ok(room);
        }
        let end = self.start + count * size_of::<E>();
        READ.with_borrow_mut(|piece| {
            for at in (0..end).step_by(PIECE) {
                let len = PIECE.min(end - at);
                let pages = &mut piece.bytes()[..len.next_multiple_of(PAGE)];
                self.file.read_exact(pages)?;
                room.extend_from_slice(cast_slice(&pages[self.start.saturating_sub(at)..len]));
            }
            Ok(room)
        })
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

thread_local! {
    /// What large tensors are read by way of. It is kept: another thread computes meanwhile, and what it needs at most would hang on whether a
    /// file is just being read.
    static READ: RefCell<Piece> = RefCell::new(Piece::new(PIECE));
}

/// Pages in memory that may be read and written directly.
struct Piece(Vec<u8>);

impl Piece {
    /// As many as hold so many bytes.
    fn new(len: usize) -> Self {
        Self(vec![0; len.next_multiple_of(PAGE) + PAGE])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = (self.0.as_ptr().align_offset(PAGE), self.0.len() - PAGE);
        &mut self.0[start..][..len]
    }
}

/// Writes pages: those that are the tensor's alone from where they are, the first and the last by way of a piece.
fn write_direct(file: &File, bytes: &[u8], start: usize) -> io::Result<()> {
    let mut piece = Piece::new(PAGE);
    let write = |bytes: &[u8]| (&*file).write_all(bytes);
    let mut write_page = |bytes: &[u8], at: usize| {
        if bytes.is_empty() {
            return Ok(());
        }
        let page = piece.bytes();
        page[at..][..bytes.len()].copy_from_slice(bytes);
        write(page)
    };
    let (first, others) = bytes.split_at((PAGE - start) % PAGE);
    let (pages, last) = others.split_at(others.len() / PAGE * PAGE);
    write_page(first, start)?;
    write(pages)?;
    write_page(last, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose first is so many bytes behind the start of a page.
    fn values(room: &mut Vec<f32>, start: usize, count: usize) -> &[f32] {
        *room = vec![0.0; count + 2 * PAGE / size_of::<f32>()];
        let first = room.as_ptr().align_offset(PAGE) + start / size_of::<f32>();
        room[first..][..count].iter_mut().enumerate().for_each(|(at, value)| *value = (at * 31 % 251) as f32);
        &room[first..][..count]
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let (folder, least, piece, page) = (std::env::temp_dir(), LEAST / 4, PIECE / 4, PAGE / 4);
        let mut room = vec![];
        for count in [0, 1, piece, least - 1, least, least + 1, least + piece + page - 1, least + 3 * piece + 5] {
            for start in [0, 4, 16, PAGE - 4] {
                let values = values(&mut room, start, count);
                let spill = Spill::write(&folder, values).unwrap();
                assert!(
                    spill.start == 0 || spill.start == start && count >= least,
                    "{count}, {start}: {}",
                    spill.start
                );
                let found: Vec<f32> = spill.read(Vec::with_capacity(count), count).unwrap();
                assert!(found == values, "{count}, {start}");
            }
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error() {
        let spill = Spill::write(&std::env::temp_dir(), &vec![1u8; LEAST]).unwrap();
        spill.file.set_len(LEAST as u64 / 2).unwrap();
        assert_eq!(spill.read(Vec::<u8>::new(), LEAST).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

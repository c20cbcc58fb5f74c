//! Memory for results, which are written once from end to end, and scratch that begins at a cache line.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use crate::Stored;

/// Bytes from which on a buffer asks for large pages.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Whether buffers are filled before they are written: in this crate's tests, and in those that ask for the feature
/// `filled-buffers`. Not [under valgrind](is_under_valgrind), which sees for itself what is not written.
const FILLED: bool = cfg!(any(test, feature = "filled-buffers"));

/// Whether `scripts/valgrind_kernels.sh` runs the tests: what is read and written is looked at. Plain loops would take most of the time
/// there, so nothing is compared with them, and cases that differ in values alone are fewer.
pub(crate) fn is_under_valgrind() -> bool {
    std::env::var_os("LEANBURN_UNFILLED").is_some()
}

/// An empty vector with room for `len` elements.
///
/// On Linux the memory is asked for in large pages: clearing small ones on first touch would take longer than many a kernel.
///
/// # Panics
///
/// Panics if the system has no memory for it, with a message that says so: who trains can go on with less.
pub fn room_for<E: Stored>(len: usize) -> Vec<E> {
    let mut values: Vec<E> = Vec::new();
    if values.try_reserve_exact(len).is_err() {
        out_of_memory(len.saturating_mul(size_of::<E>()));
    }
    let room = &mut values.spare_capacity_mut()[..len];
    advise_large_pages(room.as_mut_ptr().cast(), size_of_val(room));
    values
}

/// A vector of `len` elements that `fill` writes.
///
/// The memory is not cleared before. In tests it is filled with ones ([`FILLED`]), which are no number in any element, so
/// that a test sees what a kernel leaves out.
///
/// # Panics
///
/// As [`room_for`].
///
/// # Safety
///
/// `fill` must write every element.
pub(crate) unsafe fn filled<E: Stored>(len: usize, fill: impl FnOnce(&mut [MaybeUninit<E>])) -> Vec<E> {
    let mut values = room_for(len);
    let room = &mut values.spare_capacity_mut()[..len];
    if FILLED && !is_under_valgrind() {
        // SAFETY: the memory is the vector's own, and elements are plain numbers of any bit pattern.
        unsafe { room.as_mut_ptr().write_bytes(0xff, len) };
    }
    fill(room);
    // SAFETY: there is room, and the caller promises that every element is written.
    unsafe { values.set_len(len) };
    values
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Scratch that begins at a cache line, so that no vector and no row of a tile that begins at a multiple of one lies across two.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    values: Vec<T>,
    start: usize,
}

impl<T: Copy + Default> Lines<T> {
    /// So many zeros.
    pub(crate) fn new(len: usize) -> Self {
        let line = LINE / size_of::<T>();
        let values = vec![T::default(); if len == 0 { 0 } else { len + line }];
        // Where nobody can say how far the next line is, as in an interpreter, the buffer begins where it lies.
        let start = values.as_ptr().align_offset(LINE).min(values.len() - len);
        Self { values, start }
    }

    /// So many, which `fill` writes, as in [`filled`].
    ///
    /// # Safety
    ///
    /// `fill` must write every element.
    pub(crate) unsafe fn filled(len: usize, fill: impl FnOnce(&mut [MaybeUninit<T>])) -> Self
    where
        T: Stored,
    {
        let spare = Self::bytes(len) / size_of::<T>() - len;
        let mut start = 0;
        // SAFETY: what lies before the line is written here, and what begins there by `fill`.
        let values = unsafe {
            filled(len + spare, |room: &mut [MaybeUninit<T>]| {
                start = room.as_ptr().align_offset(LINE).min(spare);
                room[..start].fill(MaybeUninit::new(T::default()));
                room[start + len..].fill(MaybeUninit::new(T::default()));
                fill(&mut room[start..start + len]);
            })
        };
        Self { values, start }
    }

    /// Bytes of so many.
    pub(crate) fn bytes(len: usize) -> usize {
        if len == 0 { 0 } else { len * size_of::<T>() + LINE }
    }
}

impl<T> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.values[self.start..]
    }
}

impl<T> DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..]
    }
}

#[cold]
fn out_of_memory(bytes: usize) -> ! {
    panic!("out of memory: the system has no {bytes} bytes for a result")
}

#[cfg(target_os = "linux")]
fn advise_large_pages(start: *mut u8, bytes: usize) {
    if bytes < LARGE {
        return;
    }
    // SAFETY: asks for a system constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let offset = start.align_offset(page);
    let whole = bytes.saturating_sub(offset) / page * page;
    // SAFETY: the pages lie inside of the buffer; the advice changes how they are backed, not what they hold. It may be
    // rejected, which does no harm.
    unsafe { libc::madvise(start.add(offset).cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_large_pages(_start: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_buffers_hold_what_is_written() {
        for len in [0, 1, 1000, 3 << 20] {
            // SAFETY: every element is written.
            let values = unsafe { filled(len, |values: &mut [MaybeUninit<f32>]| values.fill(MaybeUninit::new(2.5))) };
            assert!(values.len() == len && values.iter().all(|value| *value == 2.5));
        }
    }

    #[test]
    #[should_panic(expected = "out of memory: the system has no ")]
    fn what_the_system_has_not_is_a_panic_and_no_abort() {
        // SAFETY: nothing is written, since nothing is there.
        let _ = unsafe { filled(isize::MAX as usize / 8, |_: &mut [MaybeUninit<f32>]| unreachable!()) };
    }

    #[test]
    fn scratch_begins_at_a_line_and_is_zero() {
        for len in [0, 1, 15, 16, 17, 1000, 100_000] {
            let (mut floats, halves) = (Lines::<f32>::new(len), Lines::<u16>::new(len));
            assert!(floats.len() >= len && halves.len() >= len && floats.iter().all(|value| *value == 0.0));
            assert!(len == 0 || floats.as_ptr().cast::<u8>().align_offset(LINE) == 0, "{len}");
            assert!(len == 0 || halves.as_ptr().cast::<u8>().align_offset(LINE) == 0, "{len}");
            floats[..len].fill(1.0);
            assert!(floats.values.capacity() * size_of::<f32>() <= Lines::<f32>::bytes(len));
        }
    }

    #[test]
    fn filled_scratch_begins_at_a_line_and_holds_what_is_written() {
        for len in [0, 1, 16, 1000] {
            // SAFETY: every element is written.
            let floats = unsafe { Lines::<f32>::filled(len, |values| values.fill(MaybeUninit::new(2.5))) };
            assert!(floats.len() >= len && floats[..len].iter().all(|value| *value == 2.5));
            assert!(len == 0 || floats.as_ptr().cast::<u8>().align_offset(LINE) == 0, "{len}");
            assert!(floats.values.capacity() * size_of::<f32>() <= Lines::<f32>::bytes(len));
        }
    }

    #[test]
    fn what_is_left_out_is_seen() {
        // SAFETY: in a test the buffer is filled before.
        let values = unsafe { filled(2, |values: &mut [MaybeUninit<f32>]| _ = values[0].write(1.0)) };
        assert!(values[0] == 1.0 && values[1].is_nan());
    }
}

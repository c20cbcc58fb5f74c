//! Memory for results, which are written once from end to end.

use crate::Stored;

/// Bytes from which on a buffer asks for large pages.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Whether buffers are filled before they are written: in this crate's tests, and in those that ask for the feature
/// `filled-buffers`. Not where `LEANBURN_UNFILLED` is set: valgrind sees for itself what is not written.
const FILLED: bool = cfg!(any(test, feature = "filled-buffers"));

/// A vector of `len` elements that `fill` writes.
///
/// The memory is not cleared before, and on Linux it is asked for in large pages: clearing small ones on first touch
/// would take longer than many a kernel. In tests it is filled with ones ([`FILLED`]), which are no number in any element, so
/// that a test sees what a kernel leaves out.
///
/// # Safety
///
/// `fill` must write every element and read none that it has not written.
pub(crate) unsafe fn filled<E: Stored>(len: usize, fill: impl FnOnce(&mut [E])) -> Vec<E> {
    let mut values: Vec<E> = Vec::with_capacity(len);
    advise_large_pages(values.as_mut_ptr().cast(), len * size_of::<E>());
    if FILLED && std::env::var_os("LEANBURN_UNFILLED").is_none() {
        // SAFETY: the memory is the vector's own, and large enough.
        unsafe { values.as_mut_ptr().write_bytes(0xff, len) };
    }
    // SAFETY: the memory is the vector's own and large enough; elements are plain numbers of any bit pattern, and the caller
    // promises that none is read before it is written.
    fill(unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr(), len) });
    // SAFETY: the caller promises that every element is written.
    unsafe { values.set_len(len) };
    values
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
            // SAFETY: every element is written, none is read.
            let values = unsafe { filled(len, |values: &mut [f32]| values.fill(2.5)) };
            assert!(values.len() == len && values.iter().all(|value| *value == 2.5));
        }
    }

    #[test]
    fn what_is_left_out_is_seen() {
        // SAFETY: in a test the buffer is filled before.
        let values = unsafe { filled(2, |values: &mut [f32]| values[0] = 1.0) };
        assert!(values[0] == 1.0 && values[1].is_nan());
    }
}

//! A result that tasks write at places of their own, which do not lie one behind the other.

use std::marker::PhantomData;

/// An exclusive borrow of a slice, handed to several tasks.
pub(crate) struct Shared<'a, E> {
    values: *mut E,
    len: usize,
    borrow: PhantomData<&'a mut [E]>,
}

// SAFETY: stands for an exclusive borrow of values that may be sent; who takes a piece promises that it is nobody else's.
unsafe impl<E: Send> Sync for Shared<'_, E> {}

impl<'a, E> Shared<'a, E> {
    /// Shares a slice.
    pub(crate) fn new(values: &'a mut [E]) -> Self {
        Self { values: values.as_mut_ptr(), len: values.len(), borrow: PhantomData }
    }

    /// `len` values from `first` on.
    ///
    /// # Safety
    ///
    /// Nobody else has any of these values as long as the piece lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "pieces do not overlap, as the caller promises")]
    pub(crate) unsafe fn piece(&self, first: usize, len: usize) -> &mut [E] {
        assert!(first <= self.len && len <= self.len - first, "a piece leaves the result");
        // SAFETY: inside of the slice, whose borrow `self` holds, and nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(first), len) }
    }
}

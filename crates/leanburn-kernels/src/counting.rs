//! An allocator that counts the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes in use and of the most that were. A program opts in:
///
/// ```
/// use leanburn_kernels::CountingAllocator;
///
/// #[global_allocator]
/// static HEAP: CountingAllocator = CountingAllocator;
///
/// let before = HEAP.current_usage();
/// HEAP.reset_peak_usage();
/// let volume = vec![0.0f32; 1 << 20];
/// assert!(HEAP.current_usage() >= before + (4 << 20));
/// drop(volume);
/// assert!(HEAP.current_usage() < before + (4 << 20) && HEAP.peak_usage() >= before + (4 << 20));
/// ```
///
/// Every call is the system's own: a block that grows or shrinks may stay where it is, and zeroed memory comes from the
/// system as zeroed pages, which take nothing until they are written. So a program that counts takes the time and the
/// resident memory of one that does not.
///
/// # Memory
///
/// Counted are the bytes that were asked for, without what the system adds to a block. A block that is reallocated counts
/// once, with its new size: where the system has to move it, both copies exist for a moment, and that moment is not
/// counted. The counts are the process's, whatever the number of values of this type; threads may read them at any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

impl CountingAllocator {
    /// Bytes in use.
    pub fn current_usage(&self) -> usize {
        LIVE.load(Relaxed)
    }

    /// The most bytes that were in use since the start, or since [`reset_peak_usage`](Self::reset_peak_usage).
    pub fn peak_usage(&self) -> usize {
        PEAK.load(Relaxed)
    }

    /// Starts a new peak from what is in use now.
    pub fn reset_peak_usage(&self) {
        PEAK.store(LIVE.load(Relaxed), Relaxed);
    }
}

fn grow(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.fetch_sub(bytes, Relaxed);
}

// SAFETY: each call goes to the system's allocator as it came, and its answer goes back as it is. Counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        let block = unsafe { System.alloc(layout) };
        grow(if block.is_null() { 0 } else { layout.size() });
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the system's.
        let block = unsafe { System.alloc_zeroed(layout) };
        grow(if block.is_null() { 0 } else { layout.size() });
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and the block is the system's.
        unsafe { System.dealloc(block, layout) };
        shrink(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`, and the block is the system's.
        let moved = unsafe { System.realloc(block, layout, size) };
        match layout.size() {
            _ if moved.is_null() => {} // the old block is still there
            before if before < size => grow(size - before),
            before => shrink(before - size),
        }
        moved
    }
}

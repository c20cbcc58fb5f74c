//! An allocator that counts the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::kept;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The most that was ever in use.
static MOST: AtomicUsize = AtomicUsize::new(0);

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
/// After [`keep_freed_memory`](crate::keep_freed_memory), blocks of 8 MiB or more that are freed are kept for the next who asks for
/// as many bytes, whose pages the system need not clear again. With those in use they are never more than the most that was in use
/// before: then the oldest are given back first. So the resident memory has the same peak.
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

/// Counts a block of so many bytes, once there is one.
fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
    MOST.fetch_max(live, Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.fetch_sub(bytes, Relaxed);
}

/// Gives back kept blocks, so that with so many bytes more there are no more than there ever were.
fn make_room(bytes: usize) {
    if kept::bytes() > 0 {
        let live = LIVE.load(Relaxed) + bytes;
        kept::keep_at_most(MOST.load(Relaxed).saturating_sub(live));
    }
}

/// A block by `allocate`; once more without kept blocks, where the system has none.
fn allocated(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    make_room(bytes);
    let mut block = allocate();
    if block.is_null() && kept::bytes() > 0 {
        kept::keep_at_most(0);
        block = allocate();
    }
    block
}

// SAFETY: each call goes to the system's allocator as it came, and its answer goes back as it is; or a block that the system gave for
// the same layout, and that was freed since, is given once more. Counting and keeping allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = kept::take(layout).unwrap_or_else(|| {
            // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
            allocated(layout.size(), || unsafe { System.alloc(layout) })
        });
        grow(if block.is_null() { 0 } else { layout.size() });
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the system's.
        let block = allocated(layout.size(), || unsafe { System.alloc_zeroed(layout) });
        grow(if block.is_null() { 0 } else { layout.size() });
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, and the block is the system's.
        unsafe {
            if !kept::keep(block, layout) {
                System.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`, and the block is the system's.
        let moved = allocated(size.saturating_sub(layout.size()), || unsafe { System.realloc(block, layout, size) });
        match layout.size() {
            _ if moved.is_null() => {} // the old block is still there
            before if before < size => grow(size - before),
            before => shrink(before - size),
        }
        moved
    }
}

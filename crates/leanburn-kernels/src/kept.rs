//! Large blocks of memory that were freed and are kept for the next who asks for as much.
//!
//! What is kept is bounded by who calls: an allocator that counts keeps no more than it has had in use before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks of so many bytes are large: mapped one by one, so that they leave no gaps between smaller ones.
pub(crate) const LARGE: usize = 8 << 20;

/// Blocks that are kept, at most.
const MOST: usize = 512;

static IS_ON: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { blocks: [(0, Layout::new::<()>()); MOST], len: 0 });

/// The blocks, the oldest first. A fixed array: an allocator cannot allocate.
struct Blocks {
    blocks: [(usize, Layout); MOST],
    len: usize,
}

impl Blocks {
    /// Takes one out.
    fn remove(&mut self, index: usize) -> (*mut u8, Layout) {
        let (address, layout) = self.blocks[index];
        self.blocks.copy_within(index + 1..self.len, index);
        self.len -= 1;
        BYTES.fetch_sub(layout.size(), Relaxed);
        (address as *mut u8, layout)
    }

    /// Gives the oldest back to the system.
    fn give_back(&mut self) {
        let (block, layout) = self.remove(0);
        // SAFETY: the block is the system's, of this layout, and nobody else has it.
        unsafe { System.dealloc(block, layout) };
    }
}

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to keep blocks.
pub(crate) fn turn_on() {
    IS_ON.store(true, Relaxed);
}

/// Bytes of the blocks.
pub(crate) fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// A block of exactly this layout, if one is kept: the one that was freed last. Its content is what it was.
pub(crate) fn take(layout: Layout) -> Option<*mut u8> {
    if layout.size() < LARGE || bytes() == 0 {
        return None;
    }
    let mut blocks = blocks();
    let index = blocks.blocks[..blocks.len].iter().rposition(|(_, kept)| *kept == layout)?;
    Some(blocks.remove(index).0)
}

/// Keeps a block, if it is large and blocks are kept; says whether.
///
/// # Safety
///
/// The block must be the system's, of this layout, and nobody may use it any more.
pub(crate) unsafe fn keep(block: *mut u8, layout: Layout) -> bool {
    if layout.size() < LARGE || !IS_ON.load(Relaxed) {
        return false;
    }
    let mut blocks = blocks();
    if blocks.len == MOST {
        blocks.give_back();
    }
    let len = blocks.len;
    blocks.blocks[len] = (block as usize, layout);
    blocks.len += 1;
    BYTES.fetch_add(layout.size(), Relaxed);
    true
}

/// Gives blocks back to the system, the oldest first, until no more than so many bytes are kept.
pub(crate) fn keep_at_most(most: usize) {
    if bytes() <= most {
        return;
    }
    let mut blocks = blocks();
    while blocks.len > 0 && bytes() > most {
        blocks.give_back();
    }
}

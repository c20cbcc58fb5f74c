//! The counting allocator on known sequences. It is not the allocator of this program, so that it counts these calls alone.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leanburn_kernels::CountingAllocator;

/// Tests take turns: the counts are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(CountingAllocator.current_usage(), 0, "what a test takes it gives back");
    CountingAllocator.reset_peak_usage();
    running
}

#[track_caller]
fn assert_counts(live: usize, peak: usize) {
    assert_eq!([CountingAllocator.current_usage(), CountingAllocator.peak_usage()], [live, peak]);
}

/// An alignment that every block of the system has: beyond it std asks for more, fills zeros in and copies by itself.
fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

#[test]
fn a_block_counts_from_its_allocation_to_its_end() {
    let _alone = alone();
    // SAFETY: each block is freed once, with the layout that it has.
    unsafe {
        let first = CountingAllocator.alloc(layout(1000));
        assert_counts(1000, 1000);
        let second = CountingAllocator.alloc_zeroed(layout(500));
        assert!(std::slice::from_raw_parts(second, 500).iter().all(|byte| *byte == 0));
        assert_counts(1500, 1500);
        CountingAllocator.dealloc(first, layout(1000));
        assert_counts(500, 1500);
        CountingAllocator.reset_peak_usage();
        assert_counts(500, 500);
        CountingAllocator.dealloc(second, layout(500));
        assert_counts(0, 500);
    }
}

#[test]
fn a_block_that_changes_its_size_counts_once() {
    let _alone = alone();
    // SAFETY: each block is reallocated and freed with the layout that it has, and read where it was written.
    unsafe {
        let block = CountingAllocator.alloc(layout(1000));
        block.add(999).write(7);
        let block = CountingAllocator.realloc(block, layout(1000), 4000);
        assert_counts(4000, 4000); // not 5000: the old block is not there beside the new one
        assert_eq!(block.add(999).read(), 7);
        let block = CountingAllocator.realloc(block, layout(4000), 1000);
        assert_counts(1000, 4000);
        assert_eq!(block.add(999).read(), 7);
        let block = CountingAllocator.realloc(block, layout(1000), 1000);
        assert_counts(1000, 4000);
        CountingAllocator.dealloc(block, layout(1000));
        assert_counts(0, 4000);
    }
}

#[test]
fn what_the_system_refuses_is_not_counted() {
    let _alone = alone();
    let absurd = layout(black_box(isize::MAX as usize - 63));
    // SAFETY: the sizes are not zero, and the one block that there is is freed once.
    unsafe {
        assert!(black_box(CountingAllocator.alloc(absurd)).is_null());
        assert!(black_box(CountingAllocator.alloc_zeroed(absurd)).is_null());
        assert_counts(0, 0);
        let block = CountingAllocator.alloc(layout(1000));
        assert!(CountingAllocator.realloc(block, layout(1000), absurd.size()).is_null());
        assert_counts(1000, 1000);
        CountingAllocator.dealloc(block, layout(1000));
    }
}

/// Zeroed pages are the system's: a quarter of a gibibyte that nobody writes to is not resident.
#[cfg(target_os = "linux")]
#[test]
fn zeroed_memory_takes_nothing_until_it_is_written() {
    let _alone = alone();
    const SIZE: usize = 256 << 20;
    let resident_pages = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let before = resident_pages();
    // SAFETY: the block is freed once, with its layout.
    unsafe {
        let block = black_box(CountingAllocator.alloc_zeroed(layout(SIZE)));
        let grown = (resident_pages() - before) * 4096;
        assert!(grown < SIZE / 4, "{grown} bytes are resident");
        assert_counts(SIZE, SIZE);
        CountingAllocator.dealloc(block, layout(SIZE));
    }
}

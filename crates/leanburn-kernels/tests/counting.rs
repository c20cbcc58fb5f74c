//! The counting allocator on known sequences. It is not the allocator of this program, so that it counts these calls alone.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leanburn_kernels::{CountingAllocator, keep_freed_memory};

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

/// The system gives large blocks with zeros; a block that was kept has what was written to it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn large_blocks_are_kept_up_to_the_most_that_was_in_use() {
    const MIB: usize = 1 << 20;
    let _alone = alone();
    keep_freed_memory();
    // SAFETY: each block is written and read inside, and freed once with its layout; a byte may be read whatever it is.
    unsafe {
        let written = |mib: usize, byte: u8| {
            let block = CountingAllocator.alloc(layout(mib * MIB));
            let before = block.add(mib * MIB / 2).read_volatile();
            block.add(mib * MIB / 2).write_volatile(byte);
            (block, before)
        };
        let free = |block: *mut u8, mib: usize| CountingAllocator.dealloc(block, layout(mib * MIB));
        let ((first, _), (second, _)) = (written(40, 1), written(40, 2));
        free(first, 40);
        free(second, 40);
        assert_counts(0, 80 * MIB);
        // The one that was freed last, and only for as many bytes; zeros where they are asked for.
        let (again, before) = written(40, 3);
        assert_eq!(before, 2);
        let zeroed = CountingAllocator.alloc_zeroed(layout(40 * MIB));
        assert_eq!(zeroed.add(20 * MIB).read_volatile(), 0);
        free(zeroed, 40);
        free(again, 40);
        let (other, before) = written(48, 4);
        assert_eq!(before, 0);
        // With 48 MiB in use 32 may be kept, of the 80 that there were: neither block of 40.
        let (gone, before) = written(40, 5);
        assert_eq!(before, 0);
        free(gone, 40);
        free(other, 48);
        // With 88 MiB there are more than ever; what is kept then is given back for what is not large, too.
        let small = CountingAllocator.alloc(layout(8 * MIB));
        let (other, before) = written(48, 6);
        assert_eq!(before, 4);
        free(other, 48);
        let more = CountingAllocator.alloc(layout(81 * MIB));
        let (gone, before) = written(48, 7);
        assert_eq!(before, 0);
        free(gone, 48);
        free(more, 81);
        CountingAllocator.dealloc(small, layout(8 * MIB));
    }
    assert_counts(0, (8 + 81 + 48) * MIB);
}

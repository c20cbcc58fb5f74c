//! Large blocks that are kept when they are freed. The one test of its program: how much is kept depends on the most that the process
//! ever had in use.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::alloc::{GlobalAlloc, Layout};

use leanburn_kernels::{CountingAllocator, keep_freed_memory};

/// An alignment that every block of the system has.
fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// The system gives large blocks with zeros; a block that was kept has what was written to it.
#[test]
fn large_blocks_are_kept_up_to_the_most_that_was_in_use() {
    const MIB: usize = 1 << 20;
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
        assert_eq!([CountingAllocator.current_usage(), CountingAllocator.peak_usage()], [0, 80 * MIB]);
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
        // With 85 MiB there are more than ever; what is kept then is given back for what is not large, too.
        let small = CountingAllocator.alloc(layout(4 * MIB));
        let (other, before) = written(48, 6);
        assert_eq!(before, 4);
        free(other, 48);
        let more = CountingAllocator.alloc(layout(81 * MIB));
        let (gone, before) = written(48, 7);
        assert_eq!(before, 0);
        free(gone, 48);
        free(more, 81);
        CountingAllocator.dealloc(small, layout(4 * MIB));
    }
    assert_eq!([CountingAllocator.current_usage(), CountingAllocator.peak_usage()], [0, (4 + 81 + 48) * MIB]);
}

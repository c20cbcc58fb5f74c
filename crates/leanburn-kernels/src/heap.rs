//! How the system's allocator treats memory that is freed.

/// Keeps freed memory in the process instead of giving it back to the system, where glibc is the allocator.
///
/// A training step frees and allocates the same volumes again and again. glibc gives what is freed at the end of its heap
/// back to the system, which hands it out again page by page, each cleared before: about a tenth of a step. A program
/// calls this once, at the start of `main`; it is for programs, not for libraries, to decide. It changes how much memory
/// stays resident after a peak, never how much is allocated. Blocks of 32 MiB or more glibc never keeps:
/// [`CountingAllocator`](crate::CountingAllocator) does from then on, where it is the program's.
pub fn keep_freed_memory() {
    crate::kept::turn_on();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Glibc's own upper limit.
        const MAPPED_FROM: libc::c_int = crate::kept::LARGE as libc::c_int;
        const KEPT_AT_THE_END: libc::c_int = 1 << 30;
        // SAFETY: both set a parameter of the allocator; values it does not accept are ignored.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_AT_THE_END);
        }
    }
}

//! How the system's allocator treats memory that is freed.

/// Keeps freed memory in the process instead of giving it back to the system, where glibc is the allocator.
///
/// A training step frees and allocates the same volumes again and again. glibc gives what is freed at the end of its heap
/// back to the system, which hands it out again page by page, each cleared before: about a tenth of a step. A program
/// calls this once, at the start of `main`; it is for programs, not for libraries, to decide. It changes how much memory
/// stays resident after a peak, never how much is allocated. Blocks of 32 MiB or more glibc never keeps: where
/// [`CountingAllocator`](crate::CountingAllocator) is the program's allocator, it does from then on, and those from 8 MiB on in its place.
pub fn keep_freed_memory() {
    crate::kept::turn_on();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// The most that glibc accepts.
        const NEVER_KEPT: usize = 32 << 20;
        const KEPT_AT_THE_END: libc::c_int = 1 << 30;
        let is_counted = crate::CountingAllocator.current_usage() > 0;
        let mapped_from = if is_counted { crate::kept::LARGE } else { NEVER_KEPT };
        // SAFETY: both set a parameter of the allocator; values it does not accept are ignored.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, mapped_from as libc::c_int);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_AT_THE_END);
        }
    }
}

//! How the system's allocator treats memory that is freed.

/// Keeps freed memory in the process instead of giving it back to the system, where glibc is the allocator.
///
/// A training step frees and allocates the same volumes again and again. glibc gives what is freed at the end of its heap
/// back to the system, which hands it out again page by page, each cleared before: about a tenth of a step. A program
/// calls this once, at the start of `main`; it is for programs, not for libraries, to decide. It changes how much memory
/// stays resident after a peak, never how much is allocated. Where glibc is not the allocator it does nothing.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Blocks above the first are mapped on their own, and given back, in any case: glibc's own upper limit.
        const MAPPED_FROM: libc::c_int = 32 << 20;
        const KEPT_AT_THE_END: libc::c_int = 1 << 30;
        // SAFETY: both set a parameter of the allocator; values it does not accept are ignored.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_AT_THE_END);
        }
    }
}

//! What the processor's caches hold.

use gemm_common::cache::CACHE_INFO;

/// Sizes outside of these are taken for an error of who tells them: a virtual machine, say.
const PLAUSIBLE: std::ops::RangeInclusive<usize> = 256 * 1024..=4 * 1024 * 1024;

/// Bytes of the second-level cache of one thread, as the processor says when it is first asked; 512 KiB where it does not.
pub fn second_level_cache() -> usize {
    plausible(CACHE_INFO[1].cache_bytes)
}

/// As many float32 values as fit that cache.
pub(crate) fn cached_floats() -> usize {
    second_level_cache() / size_of::<f32>()
}

fn plausible(bytes: usize) -> usize {
    bytes.clamp(*PLAUSIBLE.start(), *PLAUSIBLE.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_not_believed() {
        assert_eq!([0, 512 * 1024, usize::MAX].map(plausible), [256 * 1024, 512 * 1024, 4 * 1024 * 1024]);
        assert!(PLAUSIBLE.contains(&second_level_cache()));
    }
}

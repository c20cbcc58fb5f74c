//! The words of a key.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// Words that are computed at a time; a multiple of the 16 that the generator gives at once.
pub(crate) const CHUNK: usize = 1 << 10;

/// Words `CHUNK * chunk` and following of a key.
#[inline]
pub(crate) fn words(key: u64, chunk: usize) -> [u32; CHUNK] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(seed);
    generator.set_word_pos((chunk * CHUNK) as u128);
    let mut bytes = [[0; 4]; CHUNK];
    generator.fill_bytes(bytes.as_flattened_mut());
    bytes.map(u32::from_le_bytes)
}

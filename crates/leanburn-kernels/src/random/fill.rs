//! Memory that is filled with random numbers.

use rayon::prelude::*;

use super::{CHUNK, Distribution, words};

/// Fills memory with the numbers of a key: `values[i]` depends on key, distribution and `i` alone.
///
/// A uniform number is made of word `i`; two normal ones of words `2 i` and `2 i + 1`, by the transform of
/// [Box and Muller](https://doi.org/10.1214/aoms/1177706645).
///
/// # Memory
///
/// Writes `values` once; 8 KiB for each thread.
///
/// # Numerics
///
/// Arithmetic in float64, rounded once. The same bits for any number of threads; logarithm, sine and cosine are those of the system, of
/// which two may differ in the last bit of a few numbers.
///
/// # Example
///
/// ```
/// use leanburn_kernels::random::{Distribution, fill};
///
/// let (mut noise, mut again) = ([0.0; 100], [0.0; 50]);
/// fill(&mut noise, 7, Distribution::STANDARD);
/// fill(&mut again, 7, Distribution::STANDARD);
/// assert_eq!(noise[..50], again);
/// ```
pub fn fill(values: &mut [f32], key: u64, distribution: Distribution) {
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let words = words(key, chunk);
        for (values, words) in values.chunks_mut(2).zip(words.as_chunks().0) {
            let numbers = distribution.numbers(*words);
            values.copy_from_slice(&numbers[..values.len()]);
        }
    });
}

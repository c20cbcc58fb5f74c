//! Dropout: values set to zero at random. Which ones is computed, not stored.
//!
//! Draw `i` is word `i` of a counter-based generator ([Salmon et al. 2011](https://doi.org/10.1145/2063384.2063405)), a function
//! of a key and a position: any thread computes any part of the mask, and backward computes it again. The generator is
//! [ChaCha](https://cr.yp.to/chacha.html) with 8 rounds.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::element::Stored;
use crate::kernels::Element;

/// Draws of one task; a multiple of the 16 words that the generator gives at a time.
const CHUNK: usize = 1 << 10;

/// Which values of a tensor are dropped, and the factor of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutMask {
    key: u64,
    /// A value is dropped where its word is smaller.
    threshold: u64,
    scale: f32,
    run: usize,
}

impl DropoutMask {
    /// The mask of a key: each `run` consecutive values are dropped together with a probability, and multiplied by
    /// `1 / (1 - probability)` if they are not.
    ///
    /// # Numerics
    ///
    /// The probability is rounded to a multiple of 2^-32.
    ///
    /// # Panics
    ///
    /// If the probability is not at least 0 and below 1, or the run is 0.
    #[must_use]
    pub fn new(key: u64, probability: f64, run: usize) -> Self {
        assert!((0.0..1.0).contains(&probability), "the probability is {probability}, expected at least 0 and below 1");
        assert!(run > 0, "a run has at least one value");
        let threshold = (probability * 2f64.powi(32)).round() as u64;
        Self { key, threshold, scale: (1.0 / (1.0 - probability)) as f32, run }
    }

    /// The factor of values that are not dropped.
    #[must_use]
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Consecutive values that are dropped together.
    #[must_use]
    pub fn run(&self) -> usize {
        self.run
    }

    /// Whether each of the first `count` runs is kept.
    #[must_use]
    pub fn kept(&self, count: usize) -> Vec<bool> {
        let mut kept = vec![false; count];
        let chunks = kept.par_chunks_mut(CHUNK).enumerate();
        chunks.for_each(|(index, kept)| self.draw(index, kept.iter_mut(), |kept, draw| *kept = draw));
        kept
    }

    /// Gives each target of a chunk of draws whether its run is kept.
    #[inline]
    fn draw<T>(&self, chunk: usize, targets: impl Iterator<Item = T>, mut give: impl FnMut(T, bool)) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.key.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_word_pos((chunk * CHUNK) as u128);
        let mut words = [[0; 4]; CHUNK];
        generator.fill_bytes(words.as_flattened_mut());
        let kept = words.iter().map(|word| u64::from(u32::from_le_bytes(*word)) >= self.threshold);
        targets.zip(kept).for_each(|(target, kept)| give(target, kept));
    }

    /// What a value is multiplied by.
    #[inline]
    fn factor(&self, is_kept: bool) -> f32 {
        if is_kept { self.scale } else { 0.0 }
    }
}

/// Multiplies the values that are kept by the mask's scale and the others by 0, in place: the forward pass and its gradient.
///
/// # Memory
///
/// Reads and writes `values` once. 4 KiB for each thread; with runs longer than 1 also a byte for each run.
///
/// # Numerics
///
/// Arithmetic in float32, rounded once. The same bits for any number of threads.
///
/// # Panics
///
/// If the values are not a whole number of runs.
///
/// # Example
///
/// ```
/// use leanburn_kernels::dropout::{DropoutMask, dropout};
///
/// let mask = DropoutMask::new(1, 0.5, 1);
/// let (mut values, mut gradient) = ([1.0f32; 100], [1.0f32; 100]);
/// dropout(&mask, &mut values);
/// dropout(&mask, &mut gradient);
/// assert!(values.contains(&0.0) && values.contains(&2.0));
/// assert_eq!(values, gradient);
/// ```
pub fn dropout<E: Element>(mask: &DropoutMask, values: &mut [E]) {
    let (count, run) = (values.len(), mask.run);
    assert!(count.is_multiple_of(run), "{count} values are not a whole number of runs of {run}");
    (E::kernels().dropout)(mask, values);
}

/// [`dropout`] of values that are a whole number of runs.
pub(crate) fn dropout_on<E: Stored>(mask: &DropoutMask, values: &mut [E]) {
    let multiply = |value: &mut E, factor: f32| *value = E::from_f32(value.to_f32() * factor);
    if mask.run == 1 {
        let chunks = values.par_chunks_mut(CHUNK).enumerate();
        let of_chunk = |(index, values): (usize, &mut [E])| {
            mask.draw(index, values.iter_mut(), |value, kept| multiply(value, mask.factor(kept)));
        };
        return chunks.for_each(of_chunk);
    }
    let kept = mask.kept(values.len() / mask.run);
    let runs = values.par_chunks_mut(mask.run).zip(kept);
    runs.for_each(|(values, kept)| values.iter_mut().for_each(|value| multiply(value, mask.factor(kept))));
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|index| 1.0 + (index % 97) as f32 / 7.0).collect()
    }

    /// Value by value, from the words in their order.
    fn expected(key: u64, probability: f64, run: usize, values: &[f32]) -> Vec<f32> {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&key.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(seed);
        let of_run = |values: &[f32]| {
            let share = f64::from(generator.next_u32()) / 2f64.powi(32);
            let factor = if share < probability { 0.0 } else { (1.0 / (1.0 - probability)) as f32 };
            values.iter().map(|value| value * factor).collect::<Vec<_>>()
        };
        values.chunks(run).flat_map(of_run).collect()
    }

    #[test]
    fn the_words_of_the_generator_decide() {
        for (run, count) in [(1, 5 * CHUNK + 13), (3, 3 * (2 * CHUNK + 5)), (1, 0), (1, 1)] {
            let mut found = values(count);
            dropout(&DropoutMask::new(7, 0.3, run), &mut found);
            assert_eq!(found, expected(7, 0.3, run, &values(count)), "runs of {run}");
        }
    }

    #[test]
    fn half_precision_is_rounded_once() {
        let (mask, x) = (DropoutMask::new(3, 0.1, 1), values(3000));
        let mut wide = x.clone();
        dropout(&mask, &mut wide);
        let (mut half, mut brain): (Vec<f16>, Vec<bf16>) =
            x.iter().map(|value| (f16::from_f32(*value), bf16::from_f32(*value))).unzip();
        let exact: Vec<_> = half.iter().zip(&brain).map(|(half, brain)| (half.to_f32(), brain.to_f32())).collect();
        dropout(&mask, &mut half);
        dropout(&mask, &mut brain);
        for (index, kept) in mask.kept(x.len()).into_iter().enumerate() {
            let factor = mask.factor(kept);
            assert_eq!(half[index], f16::from_f32(exact[index].0 * factor));
            assert_eq!(brain[index], bf16::from_f32(exact[index].1 * factor));
            assert_eq!(wide[index], x[index] * factor);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let on_threads = |threads: usize| {
            let (mut single, mut runs) = (values(20 * CHUNK + 1), values(5 * 3 * CHUNK));
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
                dropout(&DropoutMask::new(5, 0.5, 1), &mut single);
                dropout(&DropoutMask::new(5, 0.5, 5), &mut runs);
            });
            (single, runs)
        };
        assert!(on_threads(1) == on_threads(3));
    }

    /// Within 5 standard deviations of the binomial distribution.
    #[test]
    fn the_share_of_zeros_is_the_probability() {
        const COUNT: usize = 1 << 20;
        for (key, probability) in [0.0, 1e-3, 0.1, 0.5, 0.9, 0.999].into_iter().enumerate() {
            let zeros = DropoutMask::new(key as u64, probability, 1).kept(COUNT).iter().filter(|kept| !**kept).count();
            let (mean, count) = (COUNT as f64 * probability, COUNT as f64);
            let deviation = (count * probability * (1.0 - probability)).sqrt();
            assert!((zeros as f64 - mean).abs() <= 5.0 * deviation, "{zeros} zeros, expected {mean:.0}");
        }
    }

    #[test]
    fn keys_have_masks_of_their_own() {
        let half = |key| DropoutMask::new(key, 0.5, 1).kept(4096);
        let equal = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        let base = half(1);
        assert_eq!(base, half(1));
        for other in [half(2), half(1 << 40)] {
            assert!((1888..2208).contains(&equal(&base, &other)), "half of them, within 5 standard deviations");
        }
    }

    #[test]
    #[should_panic = "the probability is NaN, expected at least 0 and below 1"]
    fn a_probability_that_is_no_number_panics() {
        _ = DropoutMask::new(0, f64::NAN, 1);
    }

    #[test]
    #[should_panic = "5 values are not a whole number of runs of 2"]
    fn a_part_of_a_run_panics() {
        dropout(&DropoutMask::new(0, 0.5, 2), &mut [0f32; 5]);
    }
}

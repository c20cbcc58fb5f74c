//! Which values are dropped: computed, not stored.
//!
//! Draw `i` is [word `i`](crate::random) of a key: any thread computes any part of the mask, and backward computes it again.

use rayon::prelude::*;

use crate::element::Stored;
use crate::random::{CHUNK, words};

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
        let kept = words(self.key, chunk).into_iter().map(|word| u64::from(word) >= self.threshold);
        targets.zip(kept).for_each(|(target, kept)| give(target, kept));
    }

    /// What a value is multiplied by.
    #[inline]
    pub(super) fn factor(&self, is_kept: bool) -> f32 {
        if is_kept { self.scale } else { 0.0 }
    }
}

/// [`dropout`](super::dropout) of values that are a whole number of runs.
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

//! To fewer bytes and back: bfloat16, and codes.

use half::bf16;
use rayon::prelude::*;

use super::quantized::Quantized;
use crate::Stored;
use crate::kernels::Element;
use crate::simd;

/// Values of one task.
const CHUNK: usize = 1 << 14;

/// The nearest bfloat16 of each value, ties to even.
///
/// # Memory
///
/// Reads `values` and writes the result, once each; no workspace.
#[must_use]
pub fn narrow(values: &[f32]) -> Vec<bf16> {
    let mut narrow = vec![bf16::ZERO; values.len()];
    let chunks = values.par_chunks(CHUNK).zip(narrow.par_chunks_mut(CHUNK));
    chunks.for_each(|(from, to)| bf16::narrow(from, to));
    narrow
}

/// Each value in float32, exactly.
///
/// # Memory
///
/// As [`narrow`].
#[must_use]
pub fn widen(values: &[bf16]) -> Vec<f32> {
    let mut wide = vec![0.0; values.len()];
    let chunks = values.par_chunks(CHUNK).zip(wide.par_chunks_mut(CHUNK));
    chunks.for_each(|(from, to)| bf16::widen(from, to));
    wide
}

impl Quantized {
    /// Quantises channels of `channel` values each, rounded by the numbers of a key.
    ///
    /// # Panics
    ///
    /// If the values are not a whole number of channels.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_kernels::compress::Quantized;
    ///
    /// let values: Vec<f32> = (0..1000).map(|index| (index as f32).sin()).collect();
    /// let quantized = Quantized::of(&values, 500, 1);
    /// assert!(quantized.bytes() < values.len() * 4 / 3);
    /// let found: Vec<f32> = quantized.values();
    /// assert!(found.iter().zip(&values).all(|(found, value)| (found - value).abs() <= 2.001 / 255.0));
    /// ```
    #[must_use]
    pub fn of<E: Element>(values: &[E], channel: usize, key: u64) -> Self {
        assert!(
            channel > 0 && values.len().is_multiple_of(channel),
            "{} values in channels of {channel}",
            values.len()
        );
        (E::kernels().quantize)(simd::best(), values, channel, key)
    }

    /// The values of the codes.
    #[must_use]
    pub fn values<E: Element>(&self) -> Vec<E> {
        (E::kernels().dequantize)(simd::best(), self)
    }
}

//! Between float32 and bfloat16.

use half::bf16;
use rayon::prelude::*;

use crate::Stored;

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

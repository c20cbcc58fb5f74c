//! Rows of max pooling in float32, and the order of their values.

use super::windows::PoolWindows;
use crate::Stored;

/// Rows that a thread works on.
pub(super) struct Rows {
    /// A row of the input in float32.
    pub(super) widened: Vec<f32>,
    /// The largest values of rows of the input.
    pub(super) largest: Vec<f32>,
    /// The largest value of each window of a row.
    pub(super) best: Vec<f32>,
    /// Where in the item it is.
    pub(super) places: Vec<u32>,
}

impl Rows {
    pub(super) fn new(windows: &PoolWindows) -> Self {
        let (input, output) = (windows.input()[2], windows.output()[2]);
        Self { widened: vec![0.0; input], largest: vec![0.0; input], best: vec![0.0; output], places: vec![0; output] }
    }

    /// Bytes that they take.
    pub(super) fn bytes(windows: &PoolWindows) -> usize {
        8 * (windows.input()[2] + windows.output()[2])
    }
}

/// Whether `value` takes the place of the largest before it.
#[inline(always)]
pub(super) fn replaces(value: f32, largest: f32) -> bool {
    value > largest || value.is_nan()
}

/// The row in float32.
#[inline(always)]
pub(super) fn widened<'a, E: Stored>(row: &'a [E], target: &'a mut [f32]) -> &'a [f32] {
    match E::as_f32(row) {
        Some(row) => row,
        None => {
            E::widen(row, target);
            target
        }
    }
}

//! Biases of relative positions and the mask of a shift, added to a tile of scores.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::places::Places;
use super::shape::WindowShape;

/// What the reference implementation adds to the scores of positions that do not attend to each other.
const MASK: f32 = -100.0;

/// Where the bias of two positions of a window stands in the table: at `middle + code(query) - code(key)`.
///
/// A position is the index of the window that the table is made for. A window that is smaller takes the first ones, as
/// the reference implementation does, although they have another geometry there.
pub(super) struct Codes {
    of: Vec<usize>,
    middle: usize,
}

impl Codes {
    pub fn new(shape: &WindowShape) -> Self {
        let [_, height, width] = shape.table_window;
        let code = |index: usize| {
            let [d, h, w] = [index / (height * width), index / width % height, index % width];
            (d * (2 * height - 1) + h) * (2 * width - 1) + w
        };
        let middle = code(shape.table_window.iter().product::<usize>() - 1);
        Self { of: (0..shape.tokens()).map(code).collect(), middle }
    }

    /// Bytes of the list.
    pub fn bytes(shape: &WindowShape) -> usize {
        shape.tokens() * size_of::<usize>()
    }
}

/// The table `[rows, heads]` as `[heads, rows]`, in units of ln 2.
pub(super) fn by_head(shape: &WindowShape, table: &[f32]) -> Vec<f32> {
    let (heads, rows) = (shape.heads, shape.table_rows());
    (0..heads * rows).map(|index| LOG2_E * table[index % rows * heads + index / rows]).collect()
}

/// Which positions a tile of scores has: rows of the block, lanes of the panel.
pub(super) struct Tile {
    pub rows: Range<usize>,
    pub lanes: Range<usize>,
    /// From one row to the next.
    pub width: usize,
}

/// The biases of a head and the mask of a window.
pub(super) struct Bias<'a> {
    pub table: &'a [f32],
    pub codes: &'a Codes,
    pub places: &'a Places,
}

impl Bias<'_> {
    /// Adds them to the scores of a tile, whose rows are keys, or else queries.
    #[inline(always)]
    pub fn add<const ROWS_ARE_KEYS: bool>(&self, tile: &Tile, scores: &mut [f32]) {
        let Tile { rows, lanes, width } = tile;
        let Codes { of: codes, middle } = self.codes;
        let lane_codes = &codes[lanes.clone()];
        for (row, scores) in rows.clone().zip(scores.chunks_exact_mut(*width)) {
            for (score, lane) in scores.iter_mut().zip(lane_codes) {
                *score += match ROWS_ARE_KEYS {
                    true => self.table[middle + lane - codes[row]],
                    false => self.table[middle + codes[row] - lane],
                };
            }
            if self.places.is_masked {
                let regions = &self.places.regions;
                for (score, lane) in scores.iter_mut().zip(&regions[lanes.clone()]) {
                    *score += if regions[row] == *lane { 0.0 } else { LOG2_E * MASK };
                }
            }
        }
    }

    /// Adds the gradients of a tile of scores, whose rows are keys, to those of the table.
    #[inline(always)]
    pub fn add_gradient(&self, tile: &Tile, scores: &[f32], sums: &mut [f64]) {
        let Tile { rows, lanes, width } = tile;
        let Codes { of: codes, middle } = self.codes;
        for (key, scores) in codes[rows.clone()].iter().zip(scores.chunks_exact(*width)) {
            for (score, query) in scores.iter().zip(&codes[lanes.clone()]) {
                sums[middle + query - key] += f64::from(*score);
            }
        }
    }
}

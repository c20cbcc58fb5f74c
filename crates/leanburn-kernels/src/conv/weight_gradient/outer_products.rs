//! Sums of outer products: the inner loop of the weight gradient where the lanes are output channels.
//!
//! A register tile of 6 rows of the packed input x 4 vectors of output channels, 9 x 2 (with few registers 6 x 2) or 12 x 1: each position costs a
//! broadcast value per row, a vector load per vector, and a multiply-add per pair. The sums need no addition across lanes, and
//! positions need neither to be neighbours nor to fill vectors.

use std::{array::from_fn, ops::Range};

use pulp::{Simd, WithSimd};

use crate::simd::{apart, few_registers, load, store};
use crate::size::{product, sum};

/// Values of the gradient that all rows pass by, about (32 KiB, of the first-level cache).
const PIECE: usize = 8 * 1024;
/// Vectors of the largest tile.
const MOST_VECTORS: usize = 4;

/// Adds to the sums of each row and column the sum over positions of `input[row + position] *
/// gradient[position][column]`.
#[derive(Debug)]
pub(crate) struct OuterProducts<'a> {
    /// Packed input.
    pub input: &'a [f32],
    /// Where each row begins in the input.
    pub rows: &'a [usize],
    /// Which row of the sums belongs to each row.
    pub targets: &'a [usize],
    /// Where each position lies behind the begin of a row.
    pub positions: &'a [usize],
    /// The gradient, `[tile][position][lane]`, see [`ColumnTiles`].
    pub gradient: &'a [f32],
    /// Positions of the gradient.
    pub gradient_positions: usize,
    /// Position of the gradient that belongs to the first of `positions`; those after it follow.
    pub first: usize,
    /// The tiles.
    pub tiles: ColumnTiles,
    /// Sums, `[row][column]` with as many columns as [`ColumnTiles::columns`].
    pub sums: &'a mut [f32],
}

/// How columns are cut into tiles of a few vectors, the last of which may be partly empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnTiles {
    /// Lanes of a vector.
    pub lanes: usize,
    /// Vectors of all tiles.
    pub vectors: usize,
    /// Number of tiles.
    pub tiles: usize,
}

/// The tiles for so many columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles(pub usize);

impl WithSimd for Tiles {
    type Output = ColumnTiles;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> ColumnTiles {
        let vectors = self.0.div_ceil(S::F32_LANES);
        let most = if few_registers::<S>() { MOST_VECTORS / 2 } else { MOST_VECTORS };
        ColumnTiles { lanes: S::F32_LANES, vectors, tiles: vectors.div_ceil(most) }
    }
}

impl ColumnTiles {
    /// Columns of all tiles.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// First column of a tile and the columns behind its last.
    pub(crate) fn tile(&self, index: usize) -> Range<usize> {
        let (first, vectors) = piece(self.vectors, self.tiles, index);
        first * self.lanes..(first + vectors) * self.lanes
    }
}

impl WithSimd for OuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.check::<S>();
        for tile in 0..self.tiles.tiles {
            let (vector, vectors) = piece(self.tiles.vectors, self.tiles.tiles, tile);
            let most_rows = most_rows::<S>(vectors);
            let row_tiles = self.rows.len().div_ceil(most_rows);
            let pieces = (self.positions.len() * vectors * S::F32_LANES).div_ceil(PIECE);
            for part in 0..pieces {
                let positions = piece(self.positions.len(), pieces, part);
                for row_tile in 0..row_tiles {
                    let rows = piece(self.rows.len(), row_tiles, row_tile);
                    // SAFETY: the tiles lie inside of the rows, columns and positions, which were checked above.
                    unsafe {
                        match vectors {
                            1 => self.add_rows::<S, 1>(simd, rows, vector, positions),
                            2 => self.add_rows::<S, 2>(simd, rows, vector, positions),
                            3 => self.add_rows::<S, 3>(simd, rows, vector, positions),
                            _ => self.add_rows::<S, 4>(simd, rows, vector, positions),
                        }
                    }
                }
            }
        }
    }
}

impl OuterProducts<'_> {
    /// Panics if any row, position or sum lies outside of its slice, or if the tiles are of other instructions.
    #[inline(always)]
    fn check<S: Simd>(&self) {
        let columns = self.tiles.columns();
        let most = |values: &[usize]| values.iter().max().map_or(0, |value| value.saturating_add(1));
        assert_eq!(self.tiles.lanes, S::F32_LANES, "the tiles are of other instructions");
        assert!(self.tiles.vectors <= MOST_VECTORS * self.tiles.tiles, "the tiles are too wide");
        let furthest = sum(&[most(self.rows), most(self.positions)]);
        assert!(furthest <= self.input.len() + 1, "a row leaves the packed input");
        assert!(sum(&[self.first, self.positions.len()]) <= self.gradient_positions, "there are fewer positions");
        assert!(product(&[self.gradient_positions, columns]) <= self.gradient.len(), "the gradient is shorter");
        assert_eq!(self.rows.len(), self.targets.len(), "each row has one row of sums");
        assert!(product(&[most(self.targets), columns]) <= self.sums.len(), "a row leaves the sums");
    }

    /// Adds a tile of `rows` (first and number, 1 to 12) by `VECTORS`.
    ///
    /// # Safety
    ///
    /// The tile must lie inside of the rows, vectors and positions, and [`Self::check`] have passed.
    #[inline(always)]
    unsafe fn add_rows<S: Simd, const VECTORS: usize>(
        &mut self,
        simd: S,
        rows: (usize, usize),
        vector: usize,
        positions: (usize, usize),
    ) {
        // SAFETY: as the caller says.
        unsafe {
            match rows.1 {
                1 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 1, VECTORS>(simd, rows.0, vector, positions),
                ),
                2 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 2, VECTORS>(simd, rows.0, vector, positions),
                ),
                3 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 3, VECTORS>(simd, rows.0, vector, positions),
                ),
                4 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 4, VECTORS>(simd, rows.0, vector, positions),
                ),
                5 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 5, VECTORS>(simd, rows.0, vector, positions),
                ),
                6 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 6, VECTORS>(simd, rows.0, vector, positions),
                ),
                7 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 7, VECTORS>(simd, rows.0, vector, positions),
                ),
                8 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 8, VECTORS>(simd, rows.0, vector, positions),
                ),
                9 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 9, VECTORS>(simd, rows.0, vector, positions),
                ),
                10 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 10, VECTORS>(simd, rows.0, vector, positions),
                ),
                11 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 11, VECTORS>(simd, rows.0, vector, positions),
                ),
                _ => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 12, VECTORS>(simd, rows.0, vector, positions),
                ),
            }
        }
    }

    /// Adds a tile of `ROWS` from `row` on by `VECTORS` from `vector` on, over positions (first and number).
    ///
    /// # Safety
    ///
    /// As for [`Self::add_rows`].
    #[inline(always)]
    unsafe fn add_tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        row: usize,
        vector: usize,
        positions: (usize, usize),
    ) {
        let mut products = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        let first = vector * S::F32_LANES * self.gradient_positions;
        let first = first + (self.first + positions.0) * VECTORS * S::F32_LANES;
        // SAFETY: `check` has seen that each row at each position lies in the input, that each position lies in the
        // gradient, and that each row of sums lies in the sums.
        unsafe {
            let rows: [*const f32; ROWS] = from_fn(|index| self.input.as_ptr().add(self.rows[row + index]));
            let mut gradient = self.gradient.as_ptr().add(first);
            for position in &self.positions[positions.0..positions.0 + positions.1] {
                let mut factors = [simd.splat_f32s(0.0); VECTORS];
                for (index, factor) in factors.iter_mut().enumerate() {
                    *factor = load::<S>(gradient.add(index * S::F32_LANES));
                }
                for index in 0..ROWS {
                    let value = simd.splat_f32s(*rows[index].add(*position));
                    for vector in 0..VECTORS {
                        products[index][vector] = simd.mul_add_e_f32s(value, factors[vector], products[index][vector]);
                    }
                }
                gradient = gradient.add(VECTORS * S::F32_LANES);
            }
            for (index, products) in products.into_iter().enumerate() {
                let sums = self.targets[row + index] * self.tiles.vectors + vector;
                let sums = self.sums.as_mut_ptr().add(sums * S::F32_LANES);
                for (vector, products) in products.into_iter().enumerate() {
                    let sums = sums.add(vector * S::F32_LANES);
                    store::<S>(sums, simd.add_f32s(load::<S>(sums), products));
                }
            }
        }
    }
}

/// Rows of a tile of so many vectors: products, factors and the values of all rows must fit into the registers.
#[inline(always)]
const fn most_rows<S: Simd>(vectors: usize) -> usize {
    match (few_registers::<S>(), vectors) {
        (_, 1) => 12,
        (true, _) => 6,
        (false, 2) => 9,
        (false, _) => 6,
    }
}

/// First and number of the elements in one of equal `pieces` of `len`.
#[inline(always)]
fn piece(len: usize, pieces: usize, index: usize) -> (usize, usize) {
    let first = len * index / pieces;
    (first, len * (index + 1) / pieces - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{available, best};

    /// Compares with plain loops on small integers, whose sums are exact.
    fn compare(rows: usize, columns: usize, count: usize) {
        let (first, all) = (3, count + 5);
        let input: Vec<f32> = (0..300).map(|index| (index * index % 7) as f32 - 3.0).collect();
        let value = |position: usize, column: usize| ((position * 5 + column * 3) % 11) as f32 - 5.0;
        let rows: Vec<usize> = (0..rows).map(|row| row * 37 % 50).collect();
        let targets: Vec<usize> = (0..rows.len()).rev().map(|row| row + 1).collect();
        let positions: Vec<usize> = (0..count).map(|position| position * 17 % 250).collect();
        for arch in available() {
            let tiles = arch.dispatch(Tiles(columns));
            let gradient: Vec<f32> = (0..tiles.tiles)
                .flat_map(|tile| (0..all).flat_map(move |at| tiles.tile(tile).map(move |column| value(at, column))))
                .collect();
            let mut sums = vec![1.0; (rows.len() + 1) * tiles.columns()];
            arch.dispatch(OuterProducts {
                input: &input,
                rows: &rows,
                targets: &targets,
                positions: &positions,
                gradient: &gradient,
                gradient_positions: all,
                first,
                tiles,
                sums: &mut sums,
            });
            assert!(tiles.columns() >= columns);
            assert_eq!(sums[..tiles.columns()], vec![1.0; tiles.columns()]);
            for (row, target) in rows.iter().zip(&targets) {
                for column in 0..columns {
                    let products = positions.iter().enumerate();
                    let products = products.map(|(index, at)| input[row + at] * value(first + index, column));
                    let exact = 1.0 + products.sum::<f32>();
                    let found = sums[target * tiles.columns() + column];
                    assert_eq!(found, exact, "{arch:?} {} {columns} {count} {row} {column}", rows.len());
                }
            }
        }
    }

    #[test]
    fn every_tile_agrees_with_plain_loops() {
        for rows in 1..26 {
            for columns in [1, 8, 9, 16, 17, 33, 49, 64, 65, 100] {
                compare(rows, columns, 2 * rows + columns % 5);
            }
        }
        compare(7, 64, 200);
        compare(10, 20, 300);
        compare(3, 5, 0);
    }

    #[test]
    #[should_panic(expected = "a row leaves the packed input")]
    fn a_row_that_leaves_the_input_is_rejected() {
        let tiles = best().dispatch(Tiles(1));
        best().dispatch(OuterProducts {
            input: &[0.0; 8],
            rows: &[5],
            targets: &[0],
            positions: &[0, 3],
            gradient: &vec![0.0; 2 * tiles.columns()],
            gradient_positions: 2,
            first: 0,
            tiles,
            sums: &mut vec![0.0; tiles.columns()],
        });
    }

    #[test]
    #[should_panic(expected = "there are fewer positions")]
    fn positions_that_the_gradient_does_not_have_are_rejected() {
        let tiles = best().dispatch(Tiles(1));
        best().dispatch(OuterProducts {
            input: &[0.0; 8],
            rows: &[5],
            targets: &[0],
            positions: &[0, 1],
            gradient: &vec![0.0; 2 * tiles.columns()],
            gradient_positions: 2,
            first: 1,
            tiles,
            sums: &mut vec![0.0; tiles.columns()],
        });
    }
}

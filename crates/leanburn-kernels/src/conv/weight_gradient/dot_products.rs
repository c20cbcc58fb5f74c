//! Dot products of all pairs of two sets of packed rows: the inner loop of the weight gradient.
//!
//! A register tile of up to 6 rows x 4 columns: each position costs a vector load per row and column of the tile, and a
//! multiply-add per pair. At the end of a tile the vectors of its four columns are brought into one (a transposition of
//! blocks of 4 x 4 and three additions), which is added to the memory's; its lanes are added up later, by [`AddUp`].

use std::array::from_fn;

use pulp::{Simd, WithSimd};

use crate::conv::packing::ahead::Ahead;
use crate::simd::{apart, few_registers, load, store};
use crate::size::{product, reach, sum, whole};

/// Rows of the largest tile.
const MOST_ROWS: usize = 6;
/// Columns of the largest tile.
const MOST_COLUMNS: usize = 4;
/// Lanes of the longest vector.
const MOST_LANES: usize = 16;

/// Where a plane begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanePair {
    /// In the packed input.
    pub input: usize,
    /// In the packed gradient.
    pub gradient: usize,
}

/// Adds to `sums` of each column and row the sum over planes and positions of `input[plane + row + position] *
/// gradient[plane + column * column_len + position]`.
///
/// Positions are taken in whole vectors: the values behind the last position are read too, up to a multiple of the
/// vector, and must be zero in the gradient and finite in the input.
#[derive(Debug)]
pub(crate) struct DotProducts<'a> {
    /// Packed input.
    pub input: &'a [f32],
    /// Packed gradient.
    pub gradient: &'a [f32],
    /// Where each row begins in a plane of the input.
    pub rows: &'a [usize],
    /// Number of columns.
    pub columns: usize,
    /// Distance of the columns in a plane of the gradient.
    pub column_len: usize,
    /// The planes to add up.
    pub planes: &'a [PlanePair],
    /// Length of each row and column.
    pub positions: usize,
    /// Partial sums, [`SumsLen`] values.
    pub sums: &'a mut [f32],
    /// What is asked for meanwhile, once for each tile.
    pub ahead: &'a mut Ahead,
}

/// The number of partial sums that [`DotProducts`] keeps for so many rows and columns.
#[derive(Debug)]
pub(crate) struct SumsLen {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

/// Where a sum is added behind the place of its row, and the factor that it has at each place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    /// The first place.
    pub first: usize,
    /// From one to the next.
    pub step: usize,
    /// The factor of each.
    pub factors: &'a [f32],
}

/// Adds each sum, times the factor of each place, to `columns[column][rows[row] + place]`, or overwrites those, and sets the partial
/// sums to zero.
#[derive(Debug)]
pub(crate) struct AddUp<'a, 'b> {
    /// Partial sums of [`DotProducts`].
    pub sums: &'a mut [f32],
    /// Where the sum of each row belongs in a column.
    pub rows: &'a [usize],
    /// Where it belongs behind that.
    pub places: Places<'a>,
    /// Whether what stands in the columns does not count.
    pub overwrite: bool,
    /// Each column.
    pub columns: &'a mut [&'b mut [f32]],
}

/// Tiles that some rows and columns make, about.
pub(crate) fn tiles(rows: usize, columns: usize) -> usize {
    rows.div_ceil(MOST_ROWS) * columns.div_ceil(MOST_COLUMNS)
}

impl WithSimd for SumsLen {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        column_tiles::<S>(self.columns) * self.rows * sums_of_tile_row::<S>()
    }
}

impl WithSimd for AddUp<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        check_lanes(simd);
        let tiles = column_tiles::<S>(self.columns.len());
        let mut sums = self.sums.chunks_exact_mut(sums_of_tile_row::<S>());
        for tile in 0..tiles {
            let (column, columns) = piece(self.columns.len(), tiles, tile);
            let columns = &mut self.columns[column..column + columns];
            for (row, sums) in self.rows.iter().zip(&mut sums) {
                let mut total = [0.0; MOST_COLUMNS];
                for four in sums.chunks_exact(MOST_COLUMNS) {
                    for index in 0..MOST_COLUMNS {
                        total[index] += four[index];
                    }
                }
                sums.fill(0.0);
                for (column, total) in columns.iter_mut().zip(total) {
                    let places = column[*row + self.places.first..].iter_mut().step_by(self.places.step);
                    for (place, factor) in places.zip(self.places.factors) {
                        *place = if self.overwrite { 0.0 } else { *place } + factor * total;
                    }
                }
            }
        }
    }
}

impl WithSimd for DotProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.check::<S>();
        let (column_tiles, row_tiles) = (column_tiles::<S>(self.columns), self.rows.len().div_ceil(MOST_ROWS));
        for column_tile in 0..column_tiles {
            let (column, columns) = piece(self.columns, column_tiles, column_tile);
            for row_tile in 0..row_tiles {
                let (row, rows) = piece(self.rows.len(), row_tiles, row_tile);
                let sums = (column_tile * self.rows.len() + row) * sums_of_tile_row::<S>();
                self.ahead.step();
                // SAFETY: the tiles lie inside of the rows and columns, which were checked above.
                unsafe {
                    match columns {
                        1 => self.add_columns::<S, 1>(simd, row, rows, column, sums),
                        2 => self.add_columns::<S, 2>(simd, row, rows, column, sums),
                        3 => self.add_columns::<S, 3>(simd, row, rows, column, sums),
                        _ => self.add_columns::<S, 4>(simd, row, rows, column, sums),
                    }
                }
            }
        }
    }
}

impl DotProducts<'_> {
    /// Panics if any row or column leaves its slice before the end of its last vector.
    #[inline(always)]
    fn check<S: Simd>(&self) {
        let len = whole(self.positions, S::F32_LANES);
        let input = self.planes.iter().map(|plane| plane.input).max().unwrap_or(0);
        let gradient = self.planes.iter().map(|plane| plane.gradient).max().unwrap_or(0);
        let row = *self.rows.iter().max().unwrap_or(&0);
        let columns = reach(self.columns, self.column_len, len);
        assert!(sum(&[input, row, len]) <= self.input.len(), "a row leaves the packed input");
        assert!(sum(&[gradient, columns]) <= self.gradient.len(), "a column leaves the packed gradient");
        let sums = product(&[column_tiles::<S>(self.columns), self.rows.len(), sums_of_tile_row::<S>()]);
        assert_eq!(self.sums.len(), sums, "the partial sums do not fit the rows and columns");
    }

    /// Adds a tile of `rows` (1 to 6) by `COLUMNS`.
    ///
    /// # Safety
    ///
    /// The tile must lie inside of `self.rows` and `self.columns`, and [`Self::check`] have passed.
    #[inline(always)]
    unsafe fn add_columns<S: Simd, const COLUMNS: usize>(
        &mut self,
        simd: S,
        row: usize,
        rows: usize,
        column: usize,
        sums: usize,
    ) {
        // SAFETY: as the caller says.
        unsafe {
            match rows {
                1 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 1, COLUMNS>(simd, row, column, sums),
                ),
                2 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 2, COLUMNS>(simd, row, column, sums),
                ),
                3 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 3, COLUMNS>(simd, row, column, sums),
                ),
                4 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 4, COLUMNS>(simd, row, column, sums),
                ),
                5 => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 5, COLUMNS>(simd, row, column, sums),
                ),
                _ => apart(
                    simd,
                    #[inline(always)]
                    || self.add_tile::<S, 6, COLUMNS>(simd, row, column, sums),
                ),
            }
        }
    }

    /// Adds a tile of `ROWS` by `COLUMNS`, whose partial sums begin at `sums`.
    ///
    /// # Safety
    ///
    /// As for [`Self::add_columns`].
    #[inline(always)]
    unsafe fn add_tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
        sums: usize,
    ) {
        let rows: [usize; ROWS] = from_fn(|index| self.rows[row + index]);
        let mut products = [[simd.splat_f32s(0.0); MOST_COLUMNS]; ROWS];
        for plane in self.planes {
            // SAFETY: `check` has seen that each row and column, to the end of its last vector, lies in its slice.
            unsafe {
                let input = self.input.as_ptr().add(plane.input);
                let gradient = self.gradient.as_ptr().add(plane.gradient);
                let rows: [*const f32; ROWS] = from_fn(|index| input.add(rows[index]));
                let columns: [*const f32; COLUMNS] = from_fn(|index| gradient.add((column + index) * self.column_len));
                let mut position = 0;
                while position < self.positions {
                    let mut factors = [simd.splat_f32s(0.0); COLUMNS];
                    for index in 0..COLUMNS {
                        factors[index] = load::<S>(columns[index].add(position));
                    }
                    for index in 0..ROWS {
                        let value = load::<S>(rows[index].add(position));
                        for column in 0..COLUMNS {
                            products[index][column] =
                                simd.mul_add_e_f32s(value, factors[column], products[index][column]);
                        }
                    }
                    position += S::F32_LANES;
                }
            }
        }
        let sums = &mut self.sums[sums..][..ROWS * sums_of_tile_row::<S>()];
        for (products, sums) in products.into_iter().zip(sums.chunks_exact_mut(sums_of_tile_row::<S>())) {
            add_to(simd, products, sums);
        }
    }
}

/// Adds the lanes of four vectors to the partial sums: those of vector `v` to the sums `v`, `v + 4`, `v + 8`, ..
#[inline(always)]
fn add_to<S: Simd>(simd: S, vectors: [S::f32s; MOST_COLUMNS], sums: &mut [f32]) {
    assert_eq!(sums.len(), sums_of_tile_row::<S>());
    if S::F32_LANES < MOST_COLUMNS {
        for index in 0..MOST_COLUMNS {
            sums[index] += simd.reduce_sum_f32s(vectors[index]);
        }
        return;
    }
    let [first, second, third, fourth] = simd.deinterleave_shfl_f32s(vectors);
    let sum = simd.add_f32s(simd.add_f32s(first, second), simd.add_f32s(third, fourth));
    // SAFETY: there are as many partial sums as lanes.
    unsafe { store::<S>(sums.as_mut_ptr(), simd.add_f32s(load::<S>(sums.as_ptr()), sum)) };
}

/// Panics if the instruction set transposes in another order than [`add_to`] says; pulp leaves the order open.
#[inline(always)]
fn check_lanes<S: Simd>(simd: S) {
    let mut sums = [0.0; MOST_LANES];
    let sums = &mut sums[..sums_of_tile_row::<S>()];
    add_to(simd, [0.0, 1.0, 2.0, 3.0].map(|number| simd.splat_f32s(number)), sums);
    let factor = S::F32_LANES.min(MOST_COLUMNS);
    assert!(sums.iter().enumerate().all(|(index, sum)| *sum == (index % MOST_COLUMNS * factor) as f32));
}

/// Partial sums of each row of a tile.
#[inline(always)]
const fn sums_of_tile_row<S: Simd>() -> usize {
    assert!(S::F32_LANES <= MOST_LANES);
    if S::F32_LANES < MOST_COLUMNS { MOST_COLUMNS } else { S::F32_LANES }
}

/// Number of tiles along the columns: products, factors and one row must fit into the registers.
#[inline(always)]
const fn column_tiles<S: Simd>(columns: usize) -> usize {
    columns.div_ceil(if few_registers::<S>() { MOST_COLUMNS / 2 } else { MOST_COLUMNS })
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
    use crate::simd::{self, available};

    /// Compares with plain loops on small integers, whose sums are exact.
    fn compare(rows: usize, columns: usize, positions: usize) {
        let column_len = positions.next_multiple_of(MOST_LANES) + 16;
        let input: Vec<f32> = (0..2000).map(|index| (index * index % 7) as f32 - 3.0).collect();
        let gradient: Vec<f32> = (0..2 * columns * column_len)
            .map(|index| if index % column_len < positions { (index * 5 % 11) as f32 - 5.0 } else { 0.0 })
            .collect();
        let rows: Vec<usize> = (0..rows).map(|row| row * 37 % 50).collect();
        let targets: Vec<usize> = (0..rows.len()).map(|row| 2 * row + 1).collect();
        let planes = [(900, 0), (13, columns * column_len)].map(|(input, gradient)| PlanePair { input, gradient });
        for arch in available() {
            let mut sums = vec![0.0; arch.dispatch(SumsLen { rows: rows.len(), columns })];
            let mut found = vec![1.0; columns * 2 * rows.len()];
            for _ in 0..2 {
                let (input, gradient, rows, planes) = (&input, &gradient, &rows, &planes);
                let sums = &mut sums;
                arch.dispatch(DotProducts {
                    input,
                    gradient,
                    rows,
                    columns,
                    column_len,
                    planes,
                    positions,
                    sums,
                    ahead: &mut Ahead::default(),
                });
            }
            let places = Places { first: 0, step: 1, factors: &[1.0] };
            let mut target: Vec<&mut [f32]> = found.chunks_exact_mut(2 * rows.len()).collect();
            arch.dispatch(AddUp { sums: &mut sums, rows: &targets, places, overwrite: false, columns: &mut target });
            assert!(sums.iter().all(|sum| *sum == 0.0));
            for (index, found) in found.iter().enumerate() {
                let (row, column) = (index / 2 % rows.len(), index / 2 / rows.len() * column_len);
                let products = planes.iter().flat_map(|plane| {
                    let input = &input[plane.input + rows[row]..][..positions];
                    input.iter().zip(&gradient[plane.gradient + column..]).map(|(input, gradient)| input * gradient)
                });
                let exact = if index % 2 == 1 { 1.0 + 2.0 * products.sum::<f32>() } else { 1.0 };
                assert_eq!(*found, exact, "{arch:?} {rows:?} {columns} {positions} {index}");
            }
        }
    }

    #[test]
    fn every_tile_agrees_with_plain_loops() {
        for rows in 1..14 {
            for columns in 1..10 {
                compare(rows, columns, 3 * rows + 5 * columns);
            }
        }
    }

    #[test]
    #[should_panic(expected = "a row leaves the packed input")]
    fn a_row_that_leaves_the_input_is_rejected() {
        let planes = [PlanePair { input: 0, gradient: 0 }];
        let (input, gradient) = ([0.0; 64], [0.0; 64]);
        let sums = &mut vec![0.0; simd::best().dispatch(SumsLen { rows: 1, columns: 1 })];
        let (input, gradient, rows, planes) = (&input, &gradient, &[17], &planes);
        let products = DotProducts {
            input,
            gradient,
            rows,
            columns: 1,
            column_len: 64,
            planes,
            positions: 48,
            sums,
            ahead: &mut Ahead::default(),
        };
        simd::best().dispatch(products);
    }
}

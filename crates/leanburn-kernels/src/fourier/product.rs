//! A product of matrices in scratch, `C = A B`, with the columns of B and C in the lanes of vectors.

use pulp::{Simd, WithSimd};

use crate::simd::{few_registers, load, store};
use crate::size::{reach, whole};

/// Columns of B and C are a multiple of this: the lanes of the widest vector.
pub(super) const LANES: usize = 16;

/// Columns with those that fill the last vector.
pub(super) fn padded(columns: usize) -> usize {
    whole(columns, LANES)
}

/// A product to be computed; it panics when a slice is too short.
pub(super) struct Product<'a> {
    /// Rows `a_stride` apart, of `inner` values each.
    pub(super) a: &'a [f32],
    pub(super) a_stride: usize,
    /// Rows of A and C.
    pub(super) rows: usize,
    /// Terms of each sum, the rows of B.
    pub(super) inner: usize,
    /// Columns of B and C, a multiple of [`LANES`]; the distance between their rows.
    pub(super) columns: usize,
    pub(super) b: &'a [f32],
    pub(super) c: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, a_stride, rows, inner, columns, b, c } = self;
        assert!(columns.is_multiple_of(LANES) && LANES.is_multiple_of(S::F32_LANES));
        assert!(reach(rows, a_stride, inner) <= a.len());
        assert!(reach(inner, columns, columns) <= b.len() && reach(rows, columns, columns) <= c.len());
        let mut row = 0;
        while row < rows {
            let strip = Strip {
                a: a[row * a_stride..].as_ptr(),
                a_stride,
                inner,
                columns,
                b: b.as_ptr(),
                c: c[row * columns..].as_mut_ptr(),
            };
            let left = rows - row;
            // SAFETY: the strip is inside of the matrices, as was checked.
            row += unsafe {
                if left >= 8 && !few_registers::<S>() {
                    strip.compute::<S, 8>(simd)
                } else if left >= 4 {
                    strip.compute::<S, 4>(simd)
                } else {
                    strip.compute::<S, 1>(simd)
                }
            };
        }
    }
}

/// Some rows of a product.
struct Strip {
    a: *const f32,
    a_stride: usize,
    inner: usize,
    columns: usize,
    b: *const f32,
    c: *mut f32,
}

impl Strip {
    /// Computes `R` rows, and returns `R`.
    ///
    /// # Safety
    ///
    /// The pointers must be good for so many rows.
    #[inline(always)]
    unsafe fn compute<S: Simd, const R: usize>(&self, simd: S) -> usize {
        let mut column = 0;
        while column < self.columns {
            let left = (self.columns - column) / S::F32_LANES;
            // SAFETY: the tile is inside of the strip.
            column += S::F32_LANES
                * unsafe {
                    match left {
                        1 => self.tile::<S, R, 1>(simd, column),
                        _ => self.tile::<S, R, 2>(simd, column),
                    }
                };
        }
        R
    }

    /// Computes `V` vectors of the rows from a column on, and returns `V`.
    ///
    /// # Safety
    ///
    /// As [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(&self, simd: S, column: usize) -> usize {
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for k in 0..self.inner {
            let mut b = [simd.splat_f32s(0.0); V];
            for (v, b) in b.iter_mut().enumerate() {
                // SAFETY: row k of B.
                *b = unsafe { load::<S>(self.b.add(k * self.columns + column + v * S::F32_LANES)) };
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: row `row` of A.
                let a = simd.splat_f32s(unsafe { *self.a.add(row * self.a_stride + k) });
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = simd.mul_add_e_f32s(a, b, *sum);
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                // SAFETY: row `row` of C.
                unsafe { store::<S>(self.c.add(row * self.columns + column + v * S::F32_LANES), sum) };
            }
        }
        V
    }
}

//! The one matrix product of attention, `C[row][lane] = sum_k A(row, k) * B[k][lane]`, held in registers.
//!
//! Lanes are positions, so that each scalar of A meets whole vectors of B: nothing is transposed, nothing is summed
//! across a vector. A tile of C stays in registers over the whole sum; the sum then meets what stands in memory once.

use pulp::{Simd, WithSimd};

use crate::simd::{few_registers, load, store};
use crate::size::reach;

/// Vectors across a panel, at most.
const MOST_VECTORS: usize = 3;

/// Positions of a block, whose values meet the lanes as scalars; the distance between its rows.
pub(super) const BLOCK: usize = 64;

/// Vectors across a panel: with eight rows, or six where registers are few, they fill the registers.
#[inline(always)]
fn panel_vectors<S: Simd>() -> usize {
    if few_registers::<S>() { MOST_VECTORS - 1 } else { MOST_VECTORS }
}

/// Lanes of a panel, the distance between the rows of B and between the rows of C.
#[inline(always)]
pub(super) fn panel_width<S: Simd>() -> usize {
    panel_vectors::<S>() * S::F32_LANES
}

/// What becomes of C.
#[derive(Clone, Copy)]
pub(super) enum Update<'a> {
    /// The product alone.
    Set,
    /// The product added to C.
    Add,
    /// The product added to C times a factor for each lane.
    ScaleAdd(&'a [f32]),
}

/// What a block of scalars and a panel of lanes have to do with each other.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Positions of the block, at most [`BLOCK`].
    pub positions: usize,
    /// Channels of the block and of the panel.
    pub channels: usize,
    /// Vectors of the panel that are computed, from the first on.
    pub vectors: usize,
}

/// `target[position][lane] = sum_channel block[channel][position] * panel[channel][lane]`.
#[inline(always)]
pub(super) fn sum_channels<S: Simd>(simd: S, block: &[f32], panel: &[f32], extent: Extent, target: &mut [f32]) {
    let Extent { positions: rows, channels: inner, vectors } = extent;
    let a = Scalars { values: block, row_stride: 1, inner_stride: BLOCK };
    // A call, since the code is large and the same for all who want it.
    simd.vectorize(Product { a, panel, rows, inner, vectors, update: Update::Set, target });
}

/// `target[channel][lane] = sum_position block[channel][position] * panel[position][lane]`, as `update` says.
#[inline(always)]
pub(super) fn sum_positions<S: Simd>(
    simd: S,
    block: &[f32],
    panel: &[f32],
    extent: Extent,
    update: Update<'_>,
    target: &mut [f32],
) {
    let Extent { positions: inner, channels: rows, vectors } = extent;
    let a = Scalars { values: block, row_stride: BLOCK, inner_stride: 1 };
    simd.vectorize(Product { a, panel, rows, inner, vectors, update, target });
}

/// The scalars A(row, k), at `row * row_stride + k * inner_stride`.
#[derive(Clone, Copy)]
struct Scalars<'a> {
    values: &'a [f32],
    row_stride: usize,
    inner_stride: usize,
}

/// A product to be computed; it panics when a slice is too short.
struct Product<'a> {
    a: Scalars<'a>,
    /// B, in rows of [`panel_width`].
    panel: &'a [f32],
    /// Rows of A and C.
    rows: usize,
    /// Terms of each sum, the rows of B.
    inner: usize,
    /// Vectors of B and C that are computed, from the first on: at most a panel.
    vectors: usize,
    update: Update<'a>,
    /// C, in rows of [`panel_width`].
    target: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, panel, rows, inner, vectors, update, target } = self;
        if rows == 0 || vectors == 0 {
            return;
        }
        let (width, used) = (panel_width::<S>(), vectors * S::F32_LANES);
        assert!(inner > 0 && vectors <= panel_vectors::<S>());
        assert!(reach(rows, a.row_stride, reach(inner, a.inner_stride, 1)) <= a.values.len());
        assert!(reach(inner, width, used) <= panel.len() && reach(rows, width, used) <= target.len());
        if let Update::ScaleAdd(factors) = update {
            assert!(used <= factors.len());
        }
        // SAFETY: just checked, and nothing beyond the extent is read or written.
        unsafe {
            match vectors {
                1 => strip::<S, 1>(simd, a, panel, rows, inner, update, target),
                2 => strip::<S, 2>(simd, a, panel, rows, inner, update, target),
                _ => strip::<S, MOST_VECTORS>(simd, a, panel, rows, inner, update, target),
            }
        }
    }
}

/// All rows of a product that is `V` vectors across, in tiles of as many rows as the registers hold.
///
/// # Safety
///
/// The slices must hold the extent, as [`Product`] checks.
#[inline(always)]
unsafe fn strip<S: Simd, const V: usize>(
    simd: S,
    a: Scalars<'_>,
    panel: &[f32],
    rows: usize,
    inner: usize,
    update: Update<'_>,
    target: &mut [f32],
) {
    let mut row = 0;
    while row < rows {
        let tile = Tile {
            // Wrapping, since the compiler may not see that the row is inside; it is.
            a: a.values.as_ptr().wrapping_add(row * a.row_stride),
            row_stride: a.row_stride,
            inner_stride: a.inner_stride,
            panel: panel.as_ptr(),
            inner,
            target: target.as_mut_ptr().wrapping_add(row * panel_width::<S>()),
        };
        let left = rows - row;
        // SAFETY: the tile is inside the extent, which the caller vouches for.
        row += unsafe {
            if left >= 8 && !few_registers::<S>() {
                tile.compute::<S, 8, V>(simd, update)
            } else if left >= 6 && few_registers::<S>() {
                tile.compute::<S, 6, V>(simd, update)
            } else if left >= 4 {
                tile.compute::<S, 4, V>(simd, update)
            } else if left >= 2 {
                tile.compute::<S, 2, V>(simd, update)
            } else {
                tile.compute::<S, 1, V>(simd, update)
            }
        };
    }
}

/// Where a tile begins.
struct Tile {
    a: *const f32,
    row_stride: usize,
    inner_stride: usize,
    panel: *const f32,
    inner: usize,
    target: *mut f32,
}

impl Tile {
    /// Computes `R` rows of `V` vectors, and returns `R`.
    ///
    /// # Safety
    ///
    /// The pointers must be good for that many rows and vectors.
    #[inline(always)]
    unsafe fn compute<S: Simd, const R: usize, const V: usize>(&self, simd: S, update: Update<'_>) -> usize {
        let (width, lanes) = (panel_width::<S>(), S::F32_LANES);
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for k in 0..self.inner {
            let mut b = [simd.splat_f32s(0.0); V];
            for (v, b) in b.iter_mut().enumerate() {
                // SAFETY: row k of the panel.
                *b = unsafe { load::<S>(self.panel.add(k * width + v * lanes)) };
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: A(row, k).
                let a = simd.splat_f32s(unsafe { *self.a.add(row * self.row_stride + k * self.inner_stride) });
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = simd.mul_add_e_f32s(a, b, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: vector v of a row of the target, and of the factors.
                unsafe {
                    let target = self.target.add(row * width + v * lanes);
                    let updated = match update {
                        Update::Set => *sum,
                        Update::Add => simd.add_f32s(load::<S>(target), *sum),
                        Update::ScaleAdd(factors) => {
                            simd.mul_add_e_f32s(load::<S>(target), load::<S>(factors.as_ptr().add(v * lanes)), *sum)
                        }
                    };
                    store::<S>(target, updated);
                }
            }
        }
        R
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every product of up to 19 rows with every update, against sums in float64.
    struct Everything;

    impl WithSimd for Everything {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (width, inner) = (panel_width::<S>(), 5);
            let value = |index: usize| (index * 37 % 101) as f32 / 50.0 - 1.0;
            let [values, panel, start] =
                [0, 1, 2].map(|seed| (seed..seed + 19 * width.max(inner)).map(value).collect::<Vec<_>>());
            let (a, panel) = (&values[..19 * inner], &panel[..inner * width]);
            for (rows, vectors) in
                (1..=19).flat_map(|rows| (1..=panel_vectors::<S>()).map(move |vectors| (rows, vectors)))
            {
                for (row_stride, inner_stride) in [(1, 19), (inner, 1)] {
                    for update in [Update::Set, Update::Add, Update::ScaleAdd(&values[1..][..width])] {
                        let a = Scalars { values: a, row_stride, inner_stride };
                        let mut target = start.clone();
                        simd.vectorize(Product { a, panel, rows, inner, vectors, update, target: &mut target });
                        for (place, (found, before)) in target.iter().zip(&start).enumerate() {
                            let inside = place / width < rows && place % width < vectors * S::F32_LANES;
                            let expected = if inside {
                                expected(a, panel, width, place, update, *before)
                            } else {
                                f64::from(*before)
                            };
                            assert!((f64::from(*found) - expected).abs() < 2e-6, "{place} {found} {expected}");
                        }
                    }
                }
            }
        }
    }

    /// What should stand at a place of C, where `before` stood.
    fn expected(a: Scalars<'_>, panel: &[f32], width: usize, place: usize, update: Update<'_>, before: f32) -> f64 {
        let (row, lane) = (place / width, place % width);
        let kept = match update {
            Update::Set => 0.0,
            Update::Add => f64::from(before),
            Update::ScaleAdd(factors) => f64::from(before) * f64::from(factors[lane]),
        };
        let terms = panel
            .chunks_exact(width)
            .enumerate()
            .map(|(k, b)| f64::from(a.values[row * a.row_stride + k * a.inner_stride]) * f64::from(b[lane]));
        kept + terms.sum::<f64>()
    }

    #[test]
    fn products_of_every_extent_agree_with_plain_sums() {
        crate::simd::available().into_iter().for_each(|arch| arch.dispatch(Everything));
    }

    #[test]
    #[should_panic(expected = "a.values.len()")]
    fn scalars_that_are_too_few_are_rejected() {
        struct TooFew;
        impl WithSimd for TooFew {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let panel = vec![0.0; 2 * panel_width::<S>()];
                let extent = Extent { positions: 2, channels: 1, vectors: 1 };
                sum_positions(simd, &[1.0], &panel, extent, Update::Set, &mut panel.clone());
            }
        }
        crate::simd::best().dispatch(TooFew);
    }
}

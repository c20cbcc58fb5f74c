//! Blocks of sixteen rows and columns, transposed.

use pulp::Simd;

use crate::conv::tiles::tap_sums::LANES;
use crate::simd::load_part;

/// Lanes of AVX2.
#[cfg(target_arch = "x86_64")]
const EIGHT: usize = 8;

/// `target[column][row] = source[row * stride + column]` for up to sixteen rows and columns; the rest is not defined.
#[inline(always)]
pub(crate) fn transposed<S: Simd>(
    simd: S,
    source: &[f32],
    stride: usize,
    [rows, columns]: [usize; 2],
) -> [[f32; LANES]; LANES] {
    assert!((1..=LANES).contains(&rows) && (1..=LANES).contains(&columns));
    let mut target = [[0.0; LANES]; LANES];
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == LANES {
        let zero = simd.splat_f32s(0.0);
        let mut values = [zero; LANES];
        for (row, values) in values.iter_mut().enumerate() {
            if row < rows {
                *values = load_part(simd, &source[row * stride..][..columns]);
            }
        }
        // SAFETY: sixteen lanes are AVX-512 here; vectors and arrays of sixteen values are of the same size.
        unsafe {
            let values = transpose_vectors(std::mem::transmute_copy(&values));
            for (target, values) in target.iter_mut().zip(values) {
                *target = std::mem::transmute::<std::arch::x86_64::__m512, [f32; LANES]>(values);
            }
        }
        return target;
    }
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == EIGHT {
        for (row, column) in [(0, 0), (0, EIGHT), (EIGHT, 0), (EIGHT, EIGHT)] {
            if row >= rows || column >= columns {
                continue;
            }
            let mut values = [simd.splat_f32s(0.0); EIGHT];
            for (index, values) in values.iter_mut().enumerate().take(rows - row) {
                let source = &source[(row + index) * stride + column..][..EIGHT.min(columns - column)];
                *values = load_part(simd, source);
            }
            // SAFETY: eight lanes are AVX2 here; vectors and arrays of eight values are of the same size.
            unsafe {
                let values = transpose_eight(std::mem::transmute_copy(&values));
                for (target, values) in target[column..].iter_mut().zip(values) {
                    let values = std::mem::transmute::<std::arch::x86_64::__m256, [f32; EIGHT]>(values);
                    target[row..][..EIGHT].copy_from_slice(&values);
                }
            }
        }
        return target;
    }
    for row in 0..rows {
        let source = &source[row * stride..][..columns];
        target.iter_mut().zip(source).for_each(|(target, source)| target[row] = *source);
    }
    target
}

/// Sixteen vectors as the rows of a matrix, transposed: pairs, then fours of lanes, then the quarters of vectors.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_vectors(rows: [std::arch::x86_64::__m512; LANES]) -> [std::arch::x86_64::__m512; LANES] {
    use std::arch::x86_64::{
        _mm512_castpd_ps as ps, _mm512_castps_pd as pd, _mm512_shuffle_f32x4 as quarters, _mm512_unpackhi_pd,
        _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };
    let (mut fours, mut columns) = (rows, rows);
    for first in [0, 4, 8, 12] {
        let [a, b, c, d] = [rows[first], rows[first + 1], rows[first + 2], rows[first + 3]];
        let low = [pd(_mm512_unpacklo_ps(a, b)), pd(_mm512_unpacklo_ps(c, d))];
        let high = [pd(_mm512_unpackhi_ps(a, b)), pd(_mm512_unpackhi_ps(c, d))];
        // Lane `4 * q + i` of `fours[first + j]`: column `4 * q + j` of row `first + i`.
        fours[first] = ps(_mm512_unpacklo_pd(low[0], low[1]));
        fours[first + 1] = ps(_mm512_unpackhi_pd(low[0], low[1]));
        fours[first + 2] = ps(_mm512_unpacklo_pd(high[0], high[1]));
        fours[first + 3] = ps(_mm512_unpackhi_pd(high[0], high[1]));
    }
    for column in 0..4 {
        let [a, b, c, d] = [fours[column], fours[4 + column], fours[8 + column], fours[12 + column]];
        // Quarters 0 and 2, then 1 and 3, of two vectors each.
        let even = [quarters::<0x88>(a, b), quarters::<0x88>(c, d)];
        let odd = [quarters::<0xdd>(a, b), quarters::<0xdd>(c, d)];
        columns[column] = quarters::<0x88>(even[0], even[1]);
        columns[4 + column] = quarters::<0x88>(odd[0], odd[1]);
        columns[8 + column] = quarters::<0xdd>(even[0], even[1]);
        columns[12 + column] = quarters::<0xdd>(odd[0], odd[1]);
    }
    columns
}

/// Eight vectors as the rows of a matrix, transposed: pairs, then fours of lanes, then the halves of vectors.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_eight(rows: [std::arch::x86_64::__m256; EIGHT]) -> [std::arch::x86_64::__m256; EIGHT] {
    use std::arch::x86_64::{
        _mm256_castpd_ps as ps, _mm256_castps_pd as pd, _mm256_permute2f128_ps as halves, _mm256_unpackhi_pd,
        _mm256_unpackhi_ps, _mm256_unpacklo_pd, _mm256_unpacklo_ps,
    };
    let (mut fours, mut columns) = (rows, rows);
    for first in [0, 4] {
        let [a, b, c, d] = [rows[first], rows[first + 1], rows[first + 2], rows[first + 3]];
        let low = [pd(_mm256_unpacklo_ps(a, b)), pd(_mm256_unpacklo_ps(c, d))];
        let high = [pd(_mm256_unpackhi_ps(a, b)), pd(_mm256_unpackhi_ps(c, d))];
        // Lane `4 * h + i` of `fours[first + j]`: column `4 * h + j` of row `first + i`.
        fours[first] = ps(_mm256_unpacklo_pd(low[0], low[1]));
        fours[first + 1] = ps(_mm256_unpackhi_pd(low[0], low[1]));
        fours[first + 2] = ps(_mm256_unpacklo_pd(high[0], high[1]));
        fours[first + 3] = ps(_mm256_unpackhi_pd(high[0], high[1]));
    }
    for column in 0..4 {
        columns[column] = halves::<0x20>(fours[column], fours[4 + column]);
        columns[4 + column] = halves::<0x31>(fours[column], fours[4 + column]);
    }
    columns
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd;

    struct Transpose<'a>(&'a [f32], usize, [usize; 2]);

    impl WithSimd for Transpose<'_> {
        type Output = [[f32; LANES]; LANES];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            transposed(simd, self.0, self.1, self.2)
        }
    }

    #[test]
    fn rows_become_columns() {
        for (rows, columns) in (1..=16).flat_map(|rows| (1..=16).map(move |columns| (rows, columns))) {
            let stride = columns + 3;
            let source: Vec<f32> = (0..(rows - 1) * stride + columns).map(|index| index as f32).collect();
            for arch in simd::available() {
                let target = arch.dispatch(Transpose(&source, stride, [rows, columns]));
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    assert_eq!(target[column][row], source[row * stride + column], "{arch:?} {rows} {columns}");
                }
            }
        }
    }
}

//! Rows of bfloat16 values on their way into packed planes, all of them or every second one, of one channel or of two in pairs; and out of sums.
//!
//! Rows are often short, and a loop that the compiler makes vector code of takes their ends one by one. So where there is AVX-512, as there is where
//! there are tiles, the last vector is masked.

use half::bf16;
use pulp::Simd;

use crate::conv::packing::rows::{PlacedRows, TileRows};
use crate::conv::tiles::tap_sums::LANES;
#[cfg(test)]
use crate::tile_products::Unit;
use crate::tile_products::{Pair, pair};

/// Whether these are the vectors of AVX-512.
#[inline(always)]
fn has_masks<S: Simd>(_: S) -> bool {
    cfg!(target_arch = "x86_64") && S::F32_LANES == LANES
}

/// Pairs of the values of two rows of the same length, to the beginning of `target`.
#[inline(always)]
pub(super) fn pairs<S: Simd>(simd: S, low: &[bf16], high: &[bf16], target: &mut [Pair]) {
    let target = &mut target[..low.len()];
    assert_eq!(low.len(), high.len());
    #[cfg(target_arch = "x86_64")]
    if has_masks(simd) {
        // SAFETY: sixteen lanes are AVX-512 here, and all three are of this length.
        unsafe { masked::pairs(low.as_ptr().cast(), high.as_ptr().cast(), target.as_mut_ptr().cast(), low.len()) };
        return;
    }
    target.iter_mut().zip(low.iter().zip(high)).for_each(|(to, (low, high))| *to = pair(*low, *high));
}

/// [`pairs`] of the first, third, .. values.
#[inline(always)]
pub(super) fn second_pairs<S: Simd>(simd: S, low: &[bf16], high: &[bf16], target: &mut [Pair]) {
    let target = &mut target[..low.len().div_ceil(2)];
    assert_eq!(low.len(), high.len());
    #[cfg(target_arch = "x86_64")]
    if has_masks(simd) {
        // SAFETY: sixteen lanes are AVX-512 here, both rows are of this length, and the target of half of it.
        unsafe {
            masked::second_pairs(low.as_ptr().cast(), high.as_ptr().cast(), target.as_mut_ptr().cast(), low.len())
        };
        return;
    }
    let values = low.iter().zip(high).step_by(2);
    target.iter_mut().zip(values).for_each(|(to, (low, high))| *to = pair(*low, *high));
}

/// The values of a row, to the beginning of `target`.
#[inline(always)]
pub(super) fn values<S: Simd>(simd: S, row: &[bf16], target: &mut [bf16]) {
    let target = &mut target[..row.len()];
    #[cfg(target_arch = "x86_64")]
    if has_masks(simd) {
        // SAFETY: sixteen lanes are AVX-512 here, and both are of this length.
        unsafe { masked::values(row.as_ptr().cast(), target.as_mut_ptr().cast(), row.len()) };
        return;
    }
    target.copy_from_slice(row);
}

/// The first, third, .. [values].
#[inline(always)]
pub(super) fn second_values<S: Simd>(simd: S, row: &[bf16], target: &mut [bf16]) {
    let target = &mut target[..row.len().div_ceil(2)];
    #[cfg(target_arch = "x86_64")]
    if has_masks(simd) {
        // SAFETY: sixteen lanes are AVX-512 here, the row is of this length, and the target of half of it.
        unsafe { masked::second_values(row.as_ptr().cast(), target.as_mut_ptr().cast(), row.len()) };
        return;
    }
    target.iter_mut().zip(row.iter().step_by(2)).for_each(|(to, value)| *to = *value);
}

/// Writes rows of sums, plus the bias and the residual, rounded to the nearest bfloat16; below the smallest normal number they are zero.
///
/// # Safety
///
/// The processor must have a [unit](crate::tile_products::Unit) for tiles, and nobody else may read or write these elements of the output.
#[inline(always)]
pub(super) unsafe fn finish(rows: TileRows<'_, '_, bf16>) {
    let phases = rows.phases[1];
    match phases {
        1 | 2 => {
            let Some(rows) = rows.placed(|len| len.div_ceil(phases)) else { return };
            // SAFETY: as the caller promises; the rows were checked.
            unsafe { if phases == 1 { finish_rows::<1>(&rows) } else { finish_rows::<2>(&rows) } }
        }
        _ => rows.each(|output, channel, first, sums| {
            let rows = PlacedRows::of_one(output, channel, first, sums);
            // SAFETY: as the caller promises; the row was checked.
            unsafe { finish_rows::<1>(&rows) };
        }),
    }
}

/// [`finish`] of rows of so many column phases.
///
/// # Safety
///
/// As for [`finish`].
#[inline(always)]
unsafe fn finish_rows<const PHASES: usize>(rows: &PlacedRows<bf16>) {
    #[cfg(test)]
    if !Unit::DotProducts.is_supported() {
        // Tiles are emulated on a processor without AVX-512 BF16.
        for row in 0..rows.count {
            let (sums, target, residual) = rows.row(row);
            for at in 0..rows.len {
                // SAFETY: as the caller promises.
                unsafe {
                    let residual = residual.map_or(0.0, |residual| residual.add(at).read().to_f32());
                    let sum = sums.add(at % PHASES * rows.phase_stride + at / PHASES).read() + rows.bias + residual;
                    target.add(at).cast::<bf16>().write(bf16::from_f32(if sum.is_subnormal() { 0.0 } else { sum }));
                }
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; both units come with AVX-512 BF16.
    unsafe {
        masked::finish_rows::<PHASES>(rows);
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("there are no tiles");
}

/// The same in vectors of AVX-512, of which the last is masked.
///
/// # Safety
///
/// Each function reads `len` values of its rows and writes as many to its target, or half of that, rounded up.
#[cfg(target_arch = "x86_64")]
mod masked {
    use std::arch::x86_64::{
        __m256bh, __m256i, __m512, __m512bh, __m512i, __mmask16, __mmask32, _mm256_mask_storeu_epi16,
        _mm256_maskz_loadu_epi16, _mm512_add_ps, _mm512_and_si512, _mm512_castsi512_ps, _mm512_castsi512_si256,
        _mm512_cvtepi32_epi16, _mm512_cvtepu16_epi32, _mm512_cvtne2ps_pbh, _mm512_cvtneps_pbh,
        _mm512_extracti64x4_epi64, _mm512_mask_storeu_epi16, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi16,
        _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32,
    };

    use half::bf16;

    use crate::conv::packing::rows::PlacedRows;

    /// The first sixteen of so many, or all.
    fn of_16(len: usize) -> __mmask16 {
        if len < 16 { (1 << len) - 1 } else { u16::MAX }
    }

    /// The first 32 of so many, or all.
    fn of_32(len: usize) -> __mmask32 {
        if len < 32 { (1 << len) - 1 } else { u32::MAX }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn both(low: __m512i, high: __m512i) -> __m512i {
        _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn pairs(low: *const i16, high: *const i16, target: *mut i32, len: usize) {
        for at in (0..len).step_by(16) {
            let mask = of_16(len - at);
            // SAFETY: the mask has no places beyond the length.
            unsafe {
                let [low, high] =
                    [low, high].map(|row| _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row.add(at))));
                _mm512_mask_storeu_epi32(target.add(at), mask, both(low, high));
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn second_pairs(low: *const i16, high: *const i16, target: *mut i32, len: usize) {
        let first = _mm512_set1_epi32(0xffff);
        for at in (0..len).step_by(32) {
            let mask = of_32(len - at);
            // SAFETY: the masks have no places beyond the length, and beyond half of it.
            unsafe {
                let [low, high] = [low, high].map(|row| _mm512_maskz_loadu_epi16(mask, row.add(at)));
                let values = both(_mm512_and_si512(low, first), high);
                _mm512_mask_storeu_epi32(target.add(at / 2), of_16((len - at).div_ceil(2)), values);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn finish_rows<const PHASES: usize>(rows: &PlacedRows<bf16>) {
        let bias = _mm512_set1_ps(rows.bias);
        let high_half = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
        for row in 0..rows.count {
            let (sums, target, residual) = rows.row(row);
            let (target, residual) = (target.cast::<i16>(), residual.map(<*const bf16>::cast::<i16>));
            for at in (0..rows.len).step_by(32) {
                let mask = of_32(rows.len - at);
                // Sums of sixteen columns each: those beside each other, or of every second column.
                let (distance, masks) = match PHASES {
                    1 => (16, [mask as u16, (mask >> 16) as u16]),
                    _ => (rows.phase_stride, [rows.len - at + 1, rows.len - at].map(|rest| of_16(rest / 2))),
                };
                // SAFETY: the masks have no places beyond the length.
                unsafe {
                    let first = sums.wrapping_add(at / PHASES);
                    let mut both: [__m512; 2] = std::array::from_fn(|part| {
                        let sums = _mm512_maskz_loadu_ps(masks[part], first.wrapping_add(part * distance));
                        _mm512_add_ps(sums, bias)
                    });
                    if let Some(residual) = residual {
                        let halves = _mm512_maskz_loadu_epi16(mask, residual.add(at));
                        let residuals = match PHASES {
                            1 => {
                                let parts = [_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64::<1>(halves)];
                                parts.map(|half| _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
                            }
                            _ => [_mm512_slli_epi32::<16>(halves), _mm512_and_si512(halves, high_half)],
                        };
                        both =
                            std::array::from_fn(|part| _mm512_add_ps(both[part], _mm512_castsi512_ps(residuals[part])));
                    }
                    let rounded: __m512i = match PHASES {
                        1 => std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(both[1], both[0])),
                        _ => {
                            let [even, odd] = both.map(|sums| {
                                _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(
                                    sums,
                                )))
                            });
                            self::both(even, odd)
                        }
                    };
                    _mm512_mask_storeu_epi16(target.add(at), mask, rounded);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn values(row: *const i16, target: *mut i16, len: usize) {
        for at in (0..len).step_by(32) {
            let mask = of_32(len - at);
            // SAFETY: the mask has no places beyond the length.
            unsafe { _mm512_mask_storeu_epi16(target.add(at), mask, _mm512_maskz_loadu_epi16(mask, row.add(at))) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn second_values(row: *const i16, target: *mut i16, len: usize) {
        for at in (0..len).step_by(32) {
            // SAFETY: the masks have no places beyond the length, and beyond half of it.
            unsafe {
                let values = _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(of_32(len - at), row.add(at)));
                _mm256_mask_storeu_epi16(target.add(at / 2), of_16((len - at).div_ceil(2)), values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::conv::operands::{Output, Residual};
    use crate::conv::packing::rows::SharedOutput;
    use crate::simd;

    /// What is written of rows of this length, behind which nothing may be written.
    struct Write<'a>(&'a [bf16], &'a [bf16], [Vec<Pair>; 2], [Vec<bf16>; 2]);

    impl WithSimd for Write<'_> {
        type Output = ([Vec<Pair>; 2], [Vec<bf16>; 2]);

        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let Self(low, high, mut both, mut one) = self;
            pairs(simd, low, high, &mut both[0]);
            second_pairs(simd, low, high, &mut both[1]);
            values(simd, low, &mut one[0]);
            second_values(simd, low, &mut one[1]);
            (both, one)
        }
    }

    #[test]
    fn rows_of_every_length() {
        let all: Vec<bf16> = (0..140).map(|at| bf16::from_bits(0x3f00 + at)).collect();
        for (len, arch) in (0..=70).flat_map(|len| simd::available().into_iter().map(move |arch| (len, arch))) {
            let (low, high) = (&all[..len], &all[70..70 + len]);
            let empty = ([vec![7; 72], vec![7; 72]], [vec![bf16::ONE; 72], vec![bf16::ONE; 72]]);
            let (both, one) = arch.dispatch(Write(low, high, empty.0, empty.1));
            for (step, (both, one)) in (1..).zip(both.iter().zip(&one)) {
                let written = len.div_ceil(step);
                for at in 0..72 {
                    let (low, high) = (low.get(at * step), high.get(at * step));
                    let expected = if at < written {
                        (pair(*low.unwrap(), *high.unwrap()), *low.unwrap())
                    } else {
                        (7, bf16::ONE)
                    };
                    assert_eq!((both[at], one[at]), expected, "{arch:?} {len} {step} {at}");
                }
            }
        }
    }

    /// Rows of every length, of one to three phases, with and without a residual, in place too, rounded as elsewhere; what is around the
    /// tile stays as it is.
    #[test]
    fn finished_rows_of_every_length() {
        if Unit::available().next().is_none() {
            return;
        }
        let residual: Vec<bf16> = (0..5 * 140).map(|at| bf16::from_f32(at as f32 * 0.125)).collect();
        let bias = [9.0, 0.5];
        for (columns, phases, kind) in
            (1..=40).flat_map(|columns| (1..=3).flat_map(move |phases| (0..3).map(move |kind| (columns, phases, kind))))
        {
            // The last column is beyond the plane where there are two phases or three.
            let (first, tile, phases) = ([1, 2], [2, columns], [phases.min(2), phases]);
            let size = [5, ((first[1] + tile[1]) * phases[1]) - usize::from(phases[1] > 1)];
            let (row_stride, phase_stride) = (columns + 3, 2 * (columns + 3) + LANES);
            let value = |at: usize| (at as f32 - 70.0) * 0.3337;
            let mut sums: Vec<f32> = (0..phases[0] * phases[1] * phase_stride).map(value).collect();
            let mut target = residual[..5 * size[1]].to_vec();
            let before = residual[..5 * size[1]].to_vec();
            let residual = [Residual::None, Residual::Of(&before), Residual::InPlace][kind];
            let output = SharedOutput::from(Output { values: &mut target, bias: Some(&bias), residual });
            let room = &mut vec![0.0; 3 * columns.next_multiple_of(LANES)];
            let (channel, plane, sums_of_rows) = (1, 0, &mut sums[..]);
            // SAFETY: there are tiles, and nobody else has the target.
            unsafe {
                finish(TileRows {
                    output: &output,
                    channel,
                    plane,
                    size,
                    first,
                    tile,
                    phases,
                    sums: sums_of_rows,
                    phase_stride,
                    row_stride,
                    room,
                });
            }
            for (at, found) in target.iter().enumerate() {
                let place = [at / size[1], at % size[1]];
                let [row, column] = [0, 1].map(|axis| place[axis].checked_sub(first[axis] * phases[axis]));
                let expected = match (row, column) {
                    (Some(row), Some(column)) if row < tile[0] * phases[0] => {
                        let phase = row % phases[0] * phases[1] + column % phases[1];
                        let sum = sums[phase * phase_stride + row / phases[0] * row_stride + column / phases[1]];
                        bf16::from_f32(sum + 0.5 + if kind > 0 { before[at].to_f32() } else { 0.0 })
                    }
                    _ => before[at],
                };
                assert_eq!(*found, expected, "{columns} {phases:?} {kind} {at}");
            }
        }
        let mut target = [bf16::ONE; 2];
        let output = SharedOutput::from(Output::plain(&mut target));
        // SAFETY: there are tiles, and nobody else has the target.
        unsafe { finish_rows::<1>(&PlacedRows::of_one(&output, 0, 0, &[1e-39, f32::NAN])) };
        assert!(target[0] == bf16::ZERO && target[1].is_nan());
    }
}

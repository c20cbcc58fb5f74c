//! Rows of bfloat16 values on their way into packed planes: all of them or every second one, of one channel or of two in pairs.
//!
//! Rows are often short, and a loop that the compiler makes vector code of takes their ends one by one. So where there is AVX-512, as there is where
//! there are tiles, the last vector is masked.

use half::bf16;
use pulp::Simd;

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

/// Writes `sums + bias`, plus a residual, rounded to the nearest bfloat16; below the smallest normal number they are zero.
///
/// # Safety
///
/// The processor must have a [unit](crate::tile_products::Unit) for tiles. The residual, which may be the target, must be readable and the target writable
/// for as many values as there are sums, and nobody else may write to them.
pub(super) unsafe fn finish(sums: &[f32], bias: f32, residual: Option<*const bf16>, target: *mut bf16) {
    #[cfg(test)]
    if !Unit::DotProducts.is_supported() {
        // Tiles are emulated on a processor without AVX-512 BF16.
        for (at, sum) in sums.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe {
                let residual = residual.map_or(0.0, |residual| residual.add(at).read().to_f32());
                let sum = sum + bias + residual;
                target.add(at).write(bf16::from_f32(if sum.is_subnormal() { 0.0 } else { sum }));
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; both units come with AVX-512 BF16.
    unsafe {
        masked::finish(sums, bias, residual.map(<*const bf16>::cast), target.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (sums, bias, residual, target);
        unreachable!("there are no tiles");
    }
}

/// The same in vectors of AVX-512, of which the last is masked.
///
/// # Safety
///
/// Each function reads `len` values of its rows and writes as many to its target, or half of that, rounded up.
#[cfg(target_arch = "x86_64")]
mod masked {
    use std::arch::x86_64::{
        __m256i, __m512i, __mmask16, __mmask32, _mm256_mask_storeu_epi16, _mm256_maskz_loadu_epi16, _mm512_add_ps,
        _mm512_and_si512, _mm512_castsi512_ps, _mm512_cvtepi32_epi16, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh,
        _mm512_mask_storeu_epi16, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps,
        _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32,
    };

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
    pub(super) unsafe fn finish(sums: &[f32], bias: f32, residual: Option<*const i16>, target: *mut i16) {
        let bias = _mm512_set1_ps(bias);
        for at in (0..sums.len()).step_by(16) {
            let mask = of_16(sums.len() - at);
            // SAFETY: the mask has no places beyond the length.
            unsafe {
                let mut sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, sums.as_ptr().add(at)), bias);
                if let Some(residual) = residual {
                    let halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, residual.add(at)));
                    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves)));
                }
                let rounded: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(sum));
                _mm256_mask_storeu_epi16(target.add(at), mask, rounded);
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

    /// Sums of every length with and without a residual, in place too, rounded as elsewhere; what is smaller than normal numbers is zero.
    #[test]
    fn finished_rows_of_every_length() {
        if Unit::available().next().is_none() {
            return;
        }
        for len in 0..=40 {
            let sums: Vec<f32> = (0..len).map(|at| (at as f32 - 7.0) * 0.3337).collect();
            let residual: Vec<bf16> = (0..41).map(|at| bf16::from_f32(at as f32 * 0.125)).collect();
            for kind in 0..3 {
                let mut target = residual.clone();
                let from = [None, Some(residual.as_ptr()), Some(target.as_ptr())][kind];
                // SAFETY: there are tiles, and both are longer than the sums.
                unsafe { finish(&sums, 0.5, from, target.as_mut_ptr()) };
                for (at, found) in target.iter().enumerate() {
                    let more = if kind > 0 { residual[at].to_f32() } else { 0.0 };
                    let expected = sums.get(at).map_or(residual[at], |sum| bf16::from_f32(sum + 0.5 + more));
                    assert_eq!(*found, expected, "{len} {kind} {at}");
                }
            }
        }
        let mut target = [bf16::ONE; 2];
        // SAFETY: there are tiles, and the target is as long as the sums.
        unsafe { finish(&[1e-39, f32::NAN], 0.0, None, target.as_mut_ptr()) };
        assert!(target[0] == bf16::ZERO && target[1].is_nan());
    }
}

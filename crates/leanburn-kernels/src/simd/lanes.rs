//! Vectors from memory and to it, whole or in part, and the places of their lanes.
//!
//! `pulp` has no safe way to some of it, or calls a function of a table: here AVX-512 and AVX2 have instructions of their own.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m512, _mm_castps_si128, _mm_movehl_ps, _mm_store_ss, _mm_storel_epi64, _mm_storeu_ps, _mm256_castpd_ps,
    _mm256_castps_pd, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_loadu_si256, _mm256_maskload_ps,
    _mm256_permute2f128_ps, _mm256_permute4x64_pd, _mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps, _mm512_rcp14_ps, _mm512_setr_epi32,
};
#[cfg(target_arch = "x86_64")]
use std::mem::transmute_copy;

use pulp::Simd;

/// Lanes of the longest vector.
const LANES: usize = 16;

/// Loads a vector from `source`.
///
/// # Safety
///
/// `S::F32_LANES` values from `source` on must be readable; they need not be aligned to the vector.
#[inline(always)]
pub(crate) unsafe fn load<S: Simd>(source: *const f32) -> S::f32s {
    // SAFETY: the caller says that the values are readable; vectors are plain values of any bit pattern.
    unsafe { source.cast::<S::f32s>().read_unaligned() }
}

/// Stores a vector to `target`.
///
/// # Safety
///
/// `S::F32_LANES` values from `target` on must be writable; they need not be aligned to the vector.
#[inline(always)]
pub(crate) unsafe fn store<S: Simd>(target: *mut f32, vector: S::f32s) {
    // SAFETY: the caller says that the values are writable.
    unsafe { target.cast::<S::f32s>().write_unaligned(vector) }
}

/// `1 / x`, within a unit in the last place, of a number from 1 to 2^127.
///
/// AVX-512 has an approximation of 14 bits, of which one step of Newton's method makes 28: dividing would take longer than all else of a sigmoid.
#[inline(always)]
pub(crate) fn reciprocal<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == LANES {
        // SAFETY: sixteen lanes are AVX-512 here, whose vectors are of the same size as `__m512`.
        let near: S::f32s = unsafe { transmute_copy(&_mm512_rcp14_ps(transmute_copy(&x))) };
        let error = simd.mul_add_e_f32s(simd.neg_f32s(x), near, one);
        return simd.mul_add_e_f32s(near, error, near);
    }
    simd.div_f32s(one, x)
}

/// Loads up to one vector; the lanes behind its values are zero.
#[inline(always)]
pub(crate) fn load_part<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    // SAFETY: the values of a slice are readable.
    unsafe { load_part_from(simd, values.as_ptr(), values.len()) }
}

/// Stores the first lanes of a vector, as many as there are places: one vector's at most.
#[inline(always)]
pub(crate) fn store_part<S: Simd>(simd: S, places: &mut [f32], vector: S::f32s) {
    // SAFETY: the places of a slice are writable.
    unsafe { store_part_to(simd, places.as_mut_ptr(), places.len(), vector) }
}

/// [`load_part`] of `len` values from `source` on.
///
/// # Safety
///
/// The values must be readable.
#[inline(always)]
pub(crate) unsafe fn load_part_from<S: Simd>(simd: S, source: *const f32, len: usize) -> S::f32s {
    assert!(len <= S::F32_LANES);
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 16 {
        // SAFETY: sixteen lanes are AVX-512 here, whose vectors are of the same size as `__m512`; what is masked is not read.
        return unsafe {
            let mask = ((1u32 << len) - 1) as u16;
            transmute_copy(&_mm512_maskz_loadu_ps(mask, source))
        };
    }
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 8 {
        /// Eight lanes from number `8 - len` on are the mask of `len`.
        static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: eight lanes are AVX2 here, whose vectors are of the same size as `__m256`; what is masked is not read.
        return unsafe {
            let mask = _mm256_loadu_si256(MASKS.as_ptr().add(8 - len).cast());
            transmute_copy(&_mm256_maskload_ps(source, mask))
        };
    }
    // SAFETY: the caller says that they are readable.
    simd.partial_load_f32s(unsafe { std::slice::from_raw_parts(source, len) })
}

/// [`store_part`] of `len` lanes to `target`, whether there are values yet or not.
///
/// # Safety
///
/// The places must be writable.
#[inline(always)]
pub(crate) unsafe fn store_part_to<S: Simd>(simd: S, target: *mut f32, len: usize, vector: S::f32s) {
    assert!(len <= S::F32_LANES);
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 16 {
        // SAFETY: sixteen lanes are AVX-512 here, whose vectors are of the same size as `__m512`; what is masked is not written.
        unsafe {
            let mask = ((1u32 << len) - 1) as u16;
            _mm512_mask_storeu_ps(target, mask, transmute_copy(&vector));
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 8 {
        if len == 8 {
            // SAFETY: the caller says that all eight are writable.
            return unsafe { store::<S>(target, vector) };
        }
        // Fours, twos and ones: masked stores of AVX2 are slow on AMD's processors.
        // SAFETY: eight lanes are AVX2 here, whose vectors are of the same size as `__m256`; each step writes behind the one before, `len`
        // lanes in all.
        unsafe {
            let all: __m256 = transmute_copy(&vector);
            let (mut rest, mut place) = (_mm256_castps256_ps128(all), target);
            if len & 4 != 0 {
                _mm_storeu_ps(place, rest);
                (rest, place) = (_mm256_extractf128_ps::<1>(all), place.add(4));
            }
            if len & 2 != 0 {
                _mm_storel_epi64(place.cast(), _mm_castps_si128(rest));
                (rest, place) = (_mm_movehl_ps(rest, rest), place.add(2));
            }
            if len & 1 != 0 {
                _mm_store_ss(place, rest);
            }
        }
        return;
    }
    let mut values = [0.0; LANES];
    simd.partial_store_f32s(&mut values[..S::F32_LANES], vector);
    // SAFETY: the caller says that they are writable.
    unsafe { target.copy_from_nonoverlapping(values.as_ptr(), len) };
}

/// The values with even and those with odd numbers, of two vectors that follow each other.
#[inline(always)]
pub(crate) fn halves<S: Simd>(simd: S, low: S::f32s, high: S::f32s) -> [S::f32s; 2] {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 16 {
        // SAFETY: sixteen lanes are AVX-512 here, whose vectors are of the same size as `__m512`.
        return unsafe {
            let [low, high]: [__m512; 2] = [transmute_copy(&low), transmute_copy(&high)];
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            transmute_copy(&[_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)])
        };
    }
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 8 {
        // SAFETY: eight lanes are AVX2 here, whose vectors are of the same size as `__m256`.
        return unsafe {
            let [low, high]: [__m256; 2] = [transmute_copy(&low), transmute_copy(&high)];
            // Two of the low vector and two of the high one in each half; their pairs are put in order.
            let pairs = [_mm256_shuffle_ps::<0x88>(low, high), _mm256_shuffle_ps::<0xdd>(low, high)];
            transmute_copy(&pairs.map(
                #[inline(always)]
                |pairs| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(pairs))),
            ))
        };
    }
    let (mut all, mut parts) = ([0.0f32; 2 * LANES], [[0.0f32; LANES]; 2]);
    simd.partial_store_f32s(&mut all[..S::F32_LANES], low);
    simd.partial_store_f32s(&mut all[S::F32_LANES..2 * S::F32_LANES], high);
    for index in 0..S::F32_LANES {
        (parts[0][index], parts[1][index]) = (all[2 * index], all[2 * index + 1]);
    }
    // SAFETY: no vector is longer than `LANES`.
    unsafe { [load::<S>(parts[0].as_ptr()), load::<S>(parts[1].as_ptr())] }
}

/// The values of two vectors in turn, the inverse of [`halves`].
#[inline(always)]
pub(crate) fn interleaved<S: Simd>(simd: S, even: S::f32s, odd: S::f32s) -> [S::f32s; 2] {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 16 {
        // SAFETY: sixteen lanes are AVX-512 here, whose vectors are of the same size as `__m512`.
        return unsafe {
            let [even, odd]: [__m512; 2] = [transmute_copy(&even), transmute_copy(&odd)];
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            transmute_copy(&[_mm512_permutex2var_ps(even, low, odd), _mm512_permutex2var_ps(even, high, odd)])
        };
    }
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == 8 {
        // SAFETY: eight lanes are AVX2 here, whose vectors are of the same size as `__m256`.
        return unsafe {
            let [even, odd]: [__m256; 2] = [transmute_copy(&even), transmute_copy(&odd)];
            // The first two pairs of each half, and the last two.
            let [first, last] = [_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd)];
            let [low, high] =
                [_mm256_permute2f128_ps::<0x20>(first, last), _mm256_permute2f128_ps::<0x31>(first, last)];
            transmute_copy(&[low, high])
        };
    }
    let (mut parts, mut all) = ([[0.0f32; LANES]; 2], [0.0f32; 2 * LANES]);
    simd.partial_store_f32s(&mut parts[0][..S::F32_LANES], even);
    simd.partial_store_f32s(&mut parts[1][..S::F32_LANES], odd);
    for index in 0..S::F32_LANES {
        (all[2 * index], all[2 * index + 1]) = (parts[0][index], parts[1][index]);
    }
    // SAFETY: no vector is longer than `LANES`.
    unsafe { [load::<S>(all.as_ptr()), load::<S>(all.as_ptr().add(S::F32_LANES))] }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd::available;

    /// Copies as much as a vector holds at most, and returns what a whole vector shows of it.
    struct CopyPart<'a>(&'a [f32], &'a mut [f32]);

    impl WithSimd for CopyPart<'_> {
        type Output = Option<[f32; 16]>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            if self.0.len() > S::F32_LANES {
                return None;
            }
            let vector = load_part(simd, self.0);
            store_part(simd, self.1, vector);
            let mut whole = [0.0; 16];
            simd.partial_store_f32s(&mut whole[..S::F32_LANES], vector);
            Some(whole)
        }
    }

    #[test]
    fn parts_of_vectors_are_read_and_written_and_nothing_behind_them() {
        for (arch, len) in available().into_iter().flat_map(|arch| (0..=16).map(move |len| (arch, len))) {
            // Of the length alone: whatever is read behind it is out of bounds.
            let values: Vec<f32> = (1..=len).map(|value| value as f32).collect();
            let mut places = [-1.0; 17];
            let Some(whole) = arch.dispatch(CopyPart(&values, &mut places[..len])) else { continue };
            let expected = |rest: f32| move |at: usize| if at < len { at as f32 + 1.0 } else { rest };
            assert_eq!(whole, std::array::from_fn(expected(0.0)), "{arch:?} {len}");
            assert_eq!(places, std::array::from_fn(expected(-1.0)), "{arch:?} {len}");
        }
    }

    /// The halves of two vectors of numbers, and what they are interleaved: of each, the values of the first and of the second.
    struct Pairs;

    impl WithSimd for Pairs {
        type Output = [Vec<f32>; 2];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let numbers: Vec<f32> = (0..2 * S::F32_LANES).map(|number| number as f32).collect();
            let (vectors, _) = S::as_simd_f32s(&numbers);
            let parts = halves(simd, vectors[0], vectors[1]);
            let whole = interleaved(simd, parts[0], parts[1]);
            [parts, whole].map(|vectors| {
                let mut values = vec![0.0; 2 * S::F32_LANES];
                let (low, high) = values.split_at_mut(S::F32_LANES);
                simd.partial_store_f32s(low, vectors[0]);
                simd.partial_store_f32s(high, vectors[1]);
                values
            })
        }
    }

    #[test]
    fn two_vectors_are_halved_and_interleaved() {
        for arch in available() {
            let [parts, whole] = arch.dispatch(Pairs);
            let lanes = parts.len() / 2;
            let expected = |at: usize| if at < lanes { 2 * at } else { 2 * (at - lanes) + 1 };
            assert_eq!(parts, (0..2 * lanes).map(|at| expected(at) as f32).collect::<Vec<_>>(), "{arch:?}");
            assert_eq!(whole, (0..2 * lanes).map(|at| at as f32).collect::<Vec<_>>(), "{arch:?}");
        }
    }
}

//! Tiles by the dot products of AVX-512 BF16: one instruction adds the products of sixteen pairs to sixteen sums.
//!
//! Columns of `B` are in the lanes, a pair of a row of `A` is the same in all of them.

#[cfg(target_arch = "x86_64")]
pub(super) use self::supported::{are_fast, is_supported, multiply};

#[cfg(target_arch = "x86_64")]
mod supported {
    use std::arch::x86_64::{
        __cpuid, __m512, __m512bh, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
        _mm512_storeu_ps,
    };

    use super::super::{Pair, Product, ROWS};

    /// Whether there are the instructions, and those of AVX-512 for values of 16 bits.
    pub(crate) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
    }

    /// Whether one takes as long as a multiply-add of float32, which has half of the products: so on AMD's processors (Zen 4), while on Intel's
    /// it took longer than two of them.
    pub(crate) fn are_fast() -> bool {
        let vendor = __cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
    }

    /// # Safety
    ///
    /// The instructions must be [supported](is_supported), and all tiles must lie inside of their slices.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(crate) unsafe fn multiply(mut product: Product<'_>) {
        // Sixteen sums are in registers at once, more than are in flight.
        let high = if product.b.tiles() > 1 { ROWS / 2 } else { ROWS };
        for row in (0..product.a.count).step_by(high) {
            // SAFETY: as the caller promises.
            unsafe {
                match product.b.tiles() {
                    1 => rows::<{ ROWS }, 1>(&mut product, row),
                    _ => rows::<{ ROWS / 2 }, 2>(&mut product, row),
                }
            }
        }
    }

    /// The sums of so many rows, from one on, and of so many tiles of columns.
    ///
    /// # Safety
    ///
    /// As for [`multiply`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn rows<const HIGH: usize, const WIDE: usize>(product: &mut Product<'_>, first: usize) {
        let Product { a, b, steps, of, terms, sums, stride, right, below, add } = product;
        let (tile, row) = (first / ROWS, first % ROWS);
        let (a_stride, pairs) = (a.stride, terms.div_ceil(2));
        // SAFETY: the rows and columns are those of tiles, which lie inside of their slices.
        unsafe {
            let target = sums.as_mut_ptr().add(tile * *below + row * *stride);
            let place = |high: usize, wide: usize| target.add(high * *stride + wide * *right);
            let mut sums = [[_mm512_setzero_ps(); WIDE]; HIGH];
            if *add {
                sums = std::array::from_fn(|high| std::array::from_fn(|wide| _mm512_loadu_ps(place(high, wide))));
            }
            let a = a.values.as_ptr().add(tile * a.next + row * a_stride);
            for [a_place, b_place] in &steps.places[of.clone()] {
                let (a, columns) = (a.add(*a_place), b.values.as_ptr().add(*b_place));
                for pair in 0..pairs {
                    let columns: [__m512bh; WIDE] = std::array::from_fn(|wide| {
                        columns.add(pair * b.stride + wide * b.next).cast::<__m512bh>().read_unaligned()
                    });
                    for (high, sums) in sums.iter_mut().enumerate() {
                        let value = a.add(high * a_stride).cast::<Pair>().add(pair).read_unaligned();
                        let value: __m512bh = std::mem::transmute(_mm512_set1_epi32(value.cast_signed()));
                        for (sum, columns) in sums.iter_mut().zip(columns) {
                            *sum = _mm512_dpbf16_ps(*sum, value, columns);
                        }
                    }
                }
            }
            for (high, sums) in sums.into_iter().enumerate() {
                sums.into_iter()
                    .enumerate()
                    .for_each(|(wide, sum): (usize, __m512)| _mm512_storeu_ps(place(high, wide), sum));
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_supported() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn are_fast() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn multiply(_: super::Product<'_>) {
    unreachable!("there are no dot products");
}

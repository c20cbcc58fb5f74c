//! Tiles by the dot products of AVX-512 BF16: one instruction adds the products of sixteen pairs to sixteen sums.
//!
//! Columns of `B` are in the lanes, a pair of a row of `A` is the same in all of them.

#[cfg(target_arch = "x86_64")]
pub(super) use self::supported::{are_fast, is_supported, multiply};

#[cfg(target_arch = "x86_64")]
mod supported {
    use std::arch::x86_64::{
        __cpuid, __m512bh, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::super::{Pair, Product, ROWS};

    /// Whether there are the instructions, and those of AVX-512 for values of 16 bits.
    pub(crate) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
    }

    /// Whether one takes as long as a multiply-add of float32, which has half of the products. So it is on AMD's processors; on an Intel Xeon it
    /// took longer than two of them.
    pub(crate) fn are_fast() -> bool {
        let vendor = __cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
    }

    /// # Safety
    ///
    /// The instructions must be [supported](is_supported), and all tiles must lie inside of their slices.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(crate) unsafe fn multiply(product: Product<'_>) {
        // SAFETY: as the caller promises.
        unsafe {
            match product.b.tiles() {
                1 => add_up::<{ ROWS }, 1>(product),
                _ => add_up::<{ ROWS / 2 }, 2>(product),
            }
        }
    }

    /// The sums of all rows and of so many tiles of columns, so many rows at a time: sixteen vectors of sums are in registers, more than are in flight.
    ///
    /// # Safety
    ///
    /// As for [`multiply`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn add_up<const HIGH: usize, const WIDE: usize>(product: Product<'_>) {
        let Product { a, b, steps, of, terms, sums: all_sums, stride, right, below, add } = product;
        let (places, pairs) = (&steps.places[of], terms.div_ceil(2));
        // SAFETY: the rows and columns are those of tiles, which lie inside of their slices.
        unsafe {
            for (tile, row) in (0..a.count).step_by(HIGH).map(|first| (first / ROWS, first % ROWS)) {
                let target = all_sums.as_mut_ptr().add(tile * below + row * stride);
                let place = |high: usize, wide: usize| target.add(high * stride + wide * right);
                let mut sums = [[_mm512_setzero_ps(); WIDE]; HIGH];
                if add {
                    sums = std::array::from_fn(|high| std::array::from_fn(|wide| _mm512_loadu_ps(place(high, wide))));
                }
                let rows = a.values.as_ptr().add(tile * a.next + row * a.stride);
                for [a_place, b_place] in places {
                    let (rows, columns) = (rows.add(*a_place).cast::<Pair>(), b.values.as_ptr().add(*b_place));
                    for pair in 0..pairs {
                        let columns: [__m512bh; WIDE] = std::array::from_fn(|wide| {
                            columns.add(pair * b.stride + wide * b.next).cast::<__m512bh>().read_unaligned()
                        });
                        for (high, sums) in sums.iter_mut().enumerate() {
                            let value = rows.byte_add(2 * high * a.stride).add(pair).read_unaligned();
                            let value: __m512bh = std::mem::transmute(_mm512_set1_epi32(value.cast_signed()));
                            for (sum, columns) in sums.iter_mut().zip(columns) {
                                *sum = _mm512_dpbf16_ps(*sum, value, columns);
                            }
                        }
                    }
                }
                for (high, sums) in sums.into_iter().enumerate() {
                    for (wide, sum) in sums.into_iter().enumerate() {
                        _mm512_storeu_ps(place(high, wide), sum);
                    }
                }
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

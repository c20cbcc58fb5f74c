//! The instruction set, and what every kernel needs of it.

use pulp::{Arch, Simd, WithSimd};

/// The best instruction set of this machine: AVX-512, AVX2 with FMA, NEON, or plain code.
pub fn best() -> Arch {
    Arch::new()
}

/// Every instruction set that runs on this machine, plain code first; for tests of one against the other.
pub fn available() -> Vec<Arch> {
    let mut available = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    available.extend(pulp::x86::V3::try_new().map(Arch::V3));
    #[cfg(target_arch = "x86_64")]
    available.extend(pulp::x86::V4::try_new().map(Arch::V4));
    #[cfg(target_arch = "aarch64")]
    available.push(Arch::new());
    available
}

/// Runs a register tile as a function of its own.
///
/// A kernel has dozens of tiles, one for each size. Inlined into one function, its compilation takes minutes (the passes
/// over loops are worse than linear); apart, seconds. The call costs nothing beside the loop of a tile.
#[inline(never)]
pub(crate) fn apart<S: Simd, R>(simd: S, tile: impl FnOnce() -> R) -> R {
    simd.vectorize(Tile(tile))
}

/// What [`apart`] runs.
struct Tile<F>(F);

impl<R, F: FnOnce() -> R> WithSimd for Tile<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> R {
        (self.0)()
    }
}

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

/// `e^x`, within 2 units in the last place over the range of float32; zero below -87.3, held at e^88 above 88.
///
/// Cody and Waite's reduction to `2^n e^r` with `|r| <= ln 2 / 2`, then a polynomial of degree six. An argument that is
/// no number gives no number.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to the nearest integer
    let splat = |value| simd.splat_f32s(value);
    let low = splat(-87.33);
    let tiny = simd.less_than_f32s(x, low);
    let held = simd.max_f32s(low, simd.min_f32s(splat(88.0), x));
    let shifted = simd.mul_add_e_f32s(held, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let n = simd.sub_f32s(shifted, splat(MAGIC));
    let r = simd.mul_add_e_f32s(n, splat(-0.693_359_4), held);
    let r = simd.mul_add_e_f32s(n, splat(2.121_944_4e-4), r);
    let mut p = splat(1.987_569_1e-4);
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = simd.mul_add_e_f32s(p, r, splat(coefficient));
    }
    let p = simd.mul_add_e_f32s(p, simd.mul_f32s(r, r), simd.add_f32s(r, splat(1.0)));
    // The integer sits in the low bits of `shifted`; moved to the exponent it multiplies by 2^n.
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let scaled = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent));
    let number = simd.equal_f32s(x, x);
    simd.select_f32s(number, simd.select_f32s(tiny, splat(0.0), scaled), x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies `exp` to every value of a slice.
    struct Exp<'a>(&'a mut [f32]);

    impl WithSimd for Exp<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (vectors, rest) = S::as_mut_simd_f32s(self.0);
            vectors.iter_mut().for_each(|vector| *vector = exp(simd, *vector));
            let last = exp(simd, simd.partial_load_f32s(rest));
            simd.partial_store_f32s(rest, last);
        }
    }

    #[test]
    fn the_exponential_is_exact_to_a_few_units_in_the_last_place() {
        let arguments: Vec<f32> = (-87_300..88_000).map(|value| value as f32 * 1e-3).collect();
        for arch in available() {
            let mut values = arguments.clone();
            arch.dispatch(Exp(&mut values));
            for (x, y) in arguments.iter().zip(values) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(y) / exact - 1.0).abs() < 3e-7, "{arch:?} {x} {y} {exact}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        for arch in available() {
            let mut values = [-1e30, -88.0, 0.0, f32::NEG_INFINITY, 1e30, f32::NAN];
            arch.dispatch(Exp(&mut values));
            assert_eq!(values[..4], [0.0, 0.0, 1.0, 0.0], "{arch:?}");
            assert!((values[4] / 88f32.exp() - 1.0).abs() < 1e-6, "{arch:?}");
            assert!(values[5].is_nan(), "{arch:?}");
        }
    }
}

//! The power of two under a softmax.

use pulp::Simd;

/// `2^x` for `x` up to 127, within 2 units in the last place; zero below -126.5.
///
/// Half the work of [`crate::simd::exp`]: scores are in units of `ln 2` and never far above zero, so that the integer
/// part needs no second multiplication and the upper end no care. An argument that is no number gives no number.
#[inline(always)]
pub(super) fn power_of_two<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // 1.5 * 2^23 + 127: adding it rounds to the nearest integer, whose low bits are then a biased exponent.
    const MAGIC: f32 = 12_583_039.0;
    let splat = |value| simd.splat_f32s(value);
    // Not `max`, which drops what is no number on some machines.
    let held = simd.select_f32s(simd.less_than_f32s(x, splat(-127.0)), splat(-127.0), x);
    let shifted = simd.add_f32s(held, splat(MAGIC));
    let r = simd.sub_f32s(held, simd.sub_f32s(shifted, splat(MAGIC)));
    let mut p = splat(1.535_336_2e-4);
    for coefficient in [1.339_887_4e-3, 9.618_437e-3, 5.550_332_6e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0] {
        p = simd.mul_add_e_f32s(p, r, splat(coefficient));
    }
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    simd.mul_f32s(p, simd.transmute_f32s_u32s(exponent))
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;

    /// Applies `power_of_two` to every value of a slice.
    struct Powers<'a>(&'a mut [f32]);

    impl WithSimd for Powers<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (vectors, rest) = S::as_mut_simd_f32s(self.0);
            vectors.iter_mut().for_each(|vector| *vector = power_of_two(simd, *vector));
            let last = power_of_two(simd, simd.partial_load_f32s(rest));
            simd.partial_store_f32s(rest, last);
        }
    }

    #[test]
    fn the_power_is_exact_to_two_units_in_the_last_place() {
        let arguments: Vec<f32> = (-125_900..10_000).map(|value| value as f32 * 1e-3).collect();
        for arch in crate::simd::available() {
            let mut values = arguments.clone();
            arch.dispatch(Powers(&mut values));
            for (x, y) in arguments.iter().zip(values) {
                let exact = f64::from(*x).exp2();
                assert!((f64::from(y) / exact - 1.0).abs() < 1.3e-7, "{arch:?} {x} {y} {exact}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        for arch in crate::simd::available() {
            let mut values = [f32::NEG_INFINITY, -1e30, -127.0, 0.0, 1.0, 127.0, f32::NAN];
            arch.dispatch(Powers(&mut values));
            assert_eq!(values[..6], [0.0, 0.0, 0.0, 1.0, 2.0, 127f32.exp2()], "{arch:?}");
            assert!(values[6].is_nan(), "{arch:?}");
        }
    }
}

//! Element-wise activation functions and their derivatives.

use pulp::Simd;

use crate::simd::{exp, sigmoid};

/// An element-wise function between a norm and a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// The input as it is.
    #[default]
    None,
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the distribution function of the standard normal distribution, exactly (no tanh).
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `x` where positive, the slope times `x` elsewhere.
    LeakyRelu(f32),
}

impl Activation {
    /// The function of each value.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        match self {
            Self::None => x,
            Self::Silu => {
                let x = above_zero_sigmoid(simd, x);
                simd.mul_f32s(x, sigmoid(simd, x))
            }
            Self::Gelu => simd.mul_f32s(x, normal_distribution(simd, x)),
            // not `max`, which drops what is no number
            Self::Relu => simd.select_f32s(simd.less_than_f32s(x, zero), zero, x),
            Self::LeakyRelu(slope) => {
                let positive = simd.greater_than_f32s(x, zero);
                simd.select_f32s(positive, x, simd.mul_f32s(x, simd.splat_f32s(slope)))
            }
        }
    }

    /// The derivative at each value; zero at zero for the function with a kink, as PyTorch has it.
    #[inline(always)]
    pub(crate) fn derivative<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        match self {
            Self::None => one,
            Self::Silu => {
                // s + x s (1 - s)
                let x = above_zero_sigmoid(simd, x);
                let s = sigmoid(simd, x);
                simd.mul_add_e_f32s(simd.mul_f32s(x, s), simd.sub_f32s(one, s), s)
            }
            Self::Gelu => {
                // Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)
                let half_square = simd.mul_f32s(simd.mul_f32s(x, x), simd.splat_f32s(-0.5));
                let density = simd.mul_f32s(exp(simd, half_square), simd.splat_f32s(0.398_942_3));
                simd.mul_add_e_f32s(x, density, normal_distribution(simd, x))
            }
            Self::Relu => simd.select_f32s(simd.less_than_or_equal_f32s(x, zero), zero, one),
            Self::LeakyRelu(slope) => simd.select_f32s(simd.greater_than_f32s(x, zero), one, simd.splat_f32s(slope)),
        }
    }
}

/// `x`, but no less than where the sigmoid is nothing: below, a product with it is nothing, too.
#[inline(always)]
fn above_zero_sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let least = simd.splat_f32s(-88.0);
    simd.select_f32s(simd.less_than_f32s(x, least), least, x)
}

/// The distribution function of the standard normal distribution, half of `erfc(-x / sqrt(2))`.
///
/// The complement of the error function is within 1.2e-7 of itself, however small it is. Source: Press et al., Numerical Recipes
/// in C, section 6.2 (`erfcc`).
#[inline(always)]
fn normal_distribution<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |value| simd.splat_f32s(value);
    let (one, z) = (splat(1.0), simd.mul_f32s(simd.abs_f32s(x), splat(std::f32::consts::FRAC_1_SQRT_2)));
    let t = simd.div_f32s(one, simd.mul_add_e_f32s(z, splat(0.5), one));
    let mut p = splat(0.170_872_77);
    for coefficient in [
        -0.822_152_23,
        1.488_515_9,
        -1.135_204,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_7,
        -1.265_512_2,
    ] {
        p = simd.mul_add_e_f32s(p, t, splat(coefficient));
    }
    let power = exp(simd, simd.sub_f32s(p, simd.mul_f32s(z, z)));
    let tail = simd.mul_f32s(simd.mul_f32s(t, power), splat(0.5));
    let positive = simd.greater_than_f32s(x, splat(0.0));
    simd.select_f32s(positive, simd.sub_f32s(one, tail), tail)
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd;

    struct Both<'a>(Activation, &'a [f32]);

    impl WithSimd for Both<'_> {
        type Output = Vec<[f32; 2]>;

        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let first = |x: S::f32s| pulp::bytemuck::cast_slice::<_, f32>(std::slice::from_ref(&x))[0];
            let of = |x: &f32| {
                let x = simd.splat_f32s(*x);
                [first(self.0.apply(simd, x)), first(self.0.derivative(simd, x))]
            };
            self.1.iter().map(of).collect()
        }
    }

    #[test]
    fn what_is_no_number_stays_none_and_very_negative_values_are_nothing() {
        for arch in simd::available() {
            let of = |activation, x: &[f32]| arch.dispatch(Both(activation, x));
            for activation in [Activation::Silu, Activation::Gelu, Activation::Relu, Activation::LeakyRelu(0.1)] {
                assert!(of(activation, &[f32::NAN])[0][0].is_nan(), "{activation:?}");
            }
            assert_eq!(
                of(Activation::Relu, &[f32::NEG_INFINITY, -1.0, 0.0, 2.0]),
                [[0.0; 2], [0.0; 2], [0.0; 2], [2.0, 1.0]]
            );
            assert_eq!(of(Activation::Relu, &[f32::NAN])[0][1], 1.0, "as in PyTorch");
            for [silu, derivative] in of(Activation::Silu, &[-90.0, -1e33, -f32::MAX]) {
                assert!(silu.abs() < 1e-35 && derivative.abs() < 1e-35, "{silu}, {derivative}");
            }
        }
    }
}

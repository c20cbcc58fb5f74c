//! Element-wise activation functions and their derivatives.

use pulp::Simd;

use crate::simd::exp;

/// An element-wise function between a norm and a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// The input as it is.
    #[default]
    None,
    /// `x * sigmoid(x)`.
    Silu,
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
            Self::Silu => simd.mul_f32s(x, sigmoid(simd, x)),
            Self::Relu => simd.max_f32s(x, zero),
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
                let s = sigmoid(simd, x);
                simd.mul_add_e_f32s(simd.mul_f32s(x, s), simd.sub_f32s(one, s), s)
            }
            Self::Relu => simd.select_f32s(simd.greater_than_f32s(x, zero), one, zero),
            Self::LeakyRelu(slope) => simd.select_f32s(simd.greater_than_f32s(x, zero), one, simd.splat_f32s(slope)),
        }
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    simd.div_f32s(one, simd.add_f32s(one, exp(simd, simd.neg_f32s(x))))
}

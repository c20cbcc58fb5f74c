//! The derivative of the softmax, score by score.

use std::f32::consts::LOG2_E;

use pulp::Simd;

use super::power::power_of_two;

/// The probability `P` of a score in units of ln 2, and its gradient `P (dP - D)`.
#[inline(always)]
pub(super) fn differentiate<S: Simd>(
    simd: S,
    score: S::f32s,
    log_sum_exp: S::f32s,
    probability_gradient: S::f32s,
    projection: S::f32s,
) -> (S::f32s, S::f32s) {
    let log_sum_exp = simd.mul_f32s(log_sum_exp, simd.splat_f32s(LOG2_E));
    let probability = power_of_two(simd, simd.sub_f32s(score, log_sum_exp));
    (probability, simd.mul_f32s(probability, simd.sub_f32s(probability_gradient, projection)))
}

//! The matrices of `F(4, 3)`: four outputs of a kernel of three elements by six products.
//!
//! An output is a coefficient of a product of polynomials, which is evaluated at the points 0, ±a, ±b and infinity. These
//! points are exact in float32, and their powers stay nearer to one than those of the simple points 0, ±1, ±2.

use pulp::Simd;

/// Outputs of a group.
pub(super) const OUTPUTS: usize = 4;

/// Inputs of a group, and the products that they take.
pub(super) const COMPONENTS: usize = 6;

/// The first point.
const A: f64 = 0.625;

/// The second point.
const B: f64 = 1.5;

/// Six values of the input, ready for the products.
#[inline(always)]
pub(super) fn input<S: Simd>(simd: S, [d0, d1, d2, d3, d4, d5]: [S::f32s; COMPONENTS]) -> [S::f32s; COMPONENTS] {
    let splat = |value: f64| simd.splat_f32s(value as f32);
    let (product, sum) = (splat(A * A * B * B), splat(-A * A - B * B));
    let even = |factor: f64| simd.mul_add_e_f32s(splat(-factor * factor), d2, d4);
    let odd = |factor: f64| simd.mul_add_e_f32s(splat(-factor * factor), d1, d3);
    let (even_a, odd_a) = (even(B), odd(B));
    let (even_b, odd_b) = (even(A), odd(A));
    [
        simd.mul_add_e_f32s(product, d0, simd.mul_add_e_f32s(sum, d2, d4)),
        simd.mul_add_e_f32s(splat(A), odd_a, even_a),
        simd.mul_add_e_f32s(splat(-A), odd_a, even_a),
        simd.mul_add_e_f32s(splat(B), odd_b, even_b),
        simd.mul_add_e_f32s(splat(-B), odd_b, even_b),
        simd.mul_add_e_f32s(product, d1, simd.mul_add_e_f32s(sum, d3, d5)),
    ]
}

/// The three elements of the kernel, ready for the products.
#[inline(always)]
pub(super) fn kernel([g0, g1, g2]: [f64; 3]) -> [f64; COMPONENTS] {
    let at = |point: f64, scale: f64| {
        let (even, odd) = (scale * (g0 + point * point * g2), scale * point * g1);
        (even + odd, even - odd)
    };
    let (a, minus_a) = at(A, 1.0 / (2.0 * A * A * (A * A - B * B)));
    let (b, minus_b) = at(B, 1.0 / (2.0 * B * B * (B * B - A * A)));
    [g0 / (A * A * B * B), a, minus_a, b, minus_b, g2]
}

/// Four outputs from the six products.
#[inline(always)]
pub(super) fn output<S: Simd>(simd: S, [m0, m1, m2, m3, m4, m5]: [S::f32s; COMPONENTS]) -> [S::f32s; OUTPUTS] {
    let splat = |value: f64| simd.splat_f32s(value as f32);
    let (even_a, odd_a) = (simd.add_f32s(m1, m2), simd.sub_f32s(m1, m2));
    let (even_b, odd_b) = (simd.add_f32s(m3, m4), simd.sub_f32s(m3, m4));
    let both = |a, x, b, y| simd.mul_add_e_f32s(splat(a), x, simd.mul_f32s(splat(b), y));
    [
        simd.add_f32s(m0, simd.add_f32s(even_a, even_b)),
        both(A, odd_a, B, odd_b),
        both(A * A, even_a, B * B, even_b),
        simd.add_f32s(m5, both(A * A * A, odd_a, B * B * B, odd_b)),
    ]
}

//! Outputs that share products: `Aᵀ (G g ⊙ Bᵀ d)`, six products for four outputs of a kernel of three elements, or for three of four.
//!
//! An output is a coefficient of a product of polynomials, which is evaluated at the points 0, ±a, ±b and infinity. These
//! points are exact in float32, and their powers stay nearer to one than those of the simple points 0, ±1, ±2. A point and its negative share
//! the even and the odd half of what they are evaluated of.

use pulp::Simd;

/// Inputs of a group, and the products that they take.
pub(crate) const PRODUCTS: usize = 6;

/// The finite points, one less than products.
pub(crate) const POINTS: [f64; PRODUCTS - 1] = [0.0, A, -A, B, -B];

/// The first point.
const A: f64 = 0.625;

/// The second point.
const B: f64 = 1.5;

/// `Bᵀ`: six values of the input, ready for the products.
#[inline(always)]
pub(crate) fn input<S: Simd>(simd: S, [d0, d1, d2, d3, d4, d5]: [S::f32s; PRODUCTS]) -> [S::f32s; PRODUCTS] {
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

/// `G`: the three elements of a kernel, ready for the products.
#[inline(always)]
pub(crate) fn kernel([g0, g1, g2]: [f64; 3]) -> [f64; PRODUCTS] {
    let at = |point: f64, scale: f64| {
        let (even, odd) = (scale * (g0 + point * point * g2), scale * point * g1);
        (even + odd, even - odd)
    };
    let (a, minus_a) = at(A, 1.0 / (2.0 * A * A * (A * A - B * B)));
    let (b, minus_b) = at(B, 1.0 / (2.0 * B * B * (B * B - A * A)));
    [g0 / (A * A * B * B), a, minus_a, b, minus_b, g2]
}

/// `Aᵀ`: three or four outputs from the six products.
#[inline(always)]
pub(crate) fn output<S: Simd, const OUTPUTS: usize>(
    simd: S,
    [m0, m1, m2, m3, m4, m5]: [S::f32s; PRODUCTS],
) -> [S::f32s; OUTPUTS] {
    let even = [simd.add_f32s(m1, m2), simd.add_f32s(m3, m4)];
    let odd = [simd.sub_f32s(m1, m2), simd.sub_f32s(m3, m4)];
    let mut outputs = [simd.add_f32s(m0, simd.add_f32s(even[0], even[1])); OUTPUTS];
    let mut powers = [A, B];
    for (index, output) in outputs.iter_mut().enumerate().skip(1) {
        let [a, b] = if index % 2 == 0 { even } else { odd };
        let [of_a, of_b] = [powers[0] as f32, powers[1] as f32];
        *output = simd.mul_add_e_f32s(simd.splat_f32s(of_a), a, simd.mul_f32s(simd.splat_f32s(of_b), b));
        powers = [powers[0] * A, powers[1] * B];
    }
    outputs[OUTPUTS - 1] = simd.add_f32s(m5, outputs[OUTPUTS - 1]);
    outputs
}

/// `A`, the transpose of [`output`]: three or four gradients, ready for the products of a kernel's gradient.
#[inline(always)]
pub(crate) fn gradient<S: Simd, const OUTPUTS: usize>(simd: S, g: [S::f32s; OUTPUTS]) -> [S::f32s; PRODUCTS] {
    let at = |point: f64| {
        let splat = |value: f64| simd.splat_f32s(value as f32);
        let even = simd.mul_add_e_f32s(splat(point * point), g[2], g[0]);
        let odd = simd.mul_f32s(splat(point), g[1]);
        let odd = if OUTPUTS > 3 { simd.mul_add_e_f32s(splat(point * point * point), g[3], odd) } else { odd };
        [simd.add_f32s(even, odd), simd.sub_f32s(even, odd)]
    };
    let ([a, minus_a], [b, minus_b]) = (at(A), at(B));
    [g[0], a, minus_a, b, minus_b, g[OUTPUTS - 1]]
}

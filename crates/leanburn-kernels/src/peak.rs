//! What a processor's arithmetic reaches where nothing else holds it up, to compare kernels with.

use std::hint::black_box;
use std::time::Instant;

use half::bf16;
use pulp::{Simd, WithSimd};

use crate::simd;
use crate::tile_products::{Operand, Product, ROWS, Steps, TERMS, Tiles, Unit};

/// Rounds of a measurement, of which the fastest counts.
const ROUNDS: usize = 5;

/// Multiply-adds of each accumulator in a round.
const LOOPS: usize = 2_000_000;

/// Accumulators: more than a processor has in flight, and fewer than any has registers.
const ACCUMULATORS: usize = 12;

/// Floating-point operations a second of float32 multiply-adds in vectors, on all threads of the current pool at once; a product and a
/// sum are two. Takes about half a second.
pub fn peak_f32_flops() -> f64 {
    on_all_threads(|| {
        let lanes = simd::best().dispatch(MultiplyAdds);
        (2 * LOOPS * ACCUMULATORS * lanes) as f64
    })
}

/// The same of bfloat16 products in tiles of AMX or by dot products of AVX-512, two by two tiles from the first-level cache; none where kernels take
/// neither.
pub fn peak_bf16_flops() -> Option<f64> {
    simd::unit().map(|unit| on_all_threads(|| tiles(unit)))
}

/// The sum over the threads of operations a second, each in its fastest round.
fn on_all_threads(run: impl Fn() -> f64 + Sync) -> f64 {
    let rates = rayon::broadcast(|_| {
        let timed = (0..ROUNDS).map(|_| {
            let begin = Instant::now();
            run() / begin.elapsed().as_secs_f64()
        });
        timed.fold(0.0, f64::max)
    });
    rates.iter().sum()
}

/// Multiply-adds that wait for nothing but themselves; the lanes of a vector.
struct MultiplyAdds;

impl WithSimd for MultiplyAdds {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let (a, b) = (simd.splat_f32s(black_box(1.0001)), simd.splat_f32s(black_box(0.9999)));
        let mut sums = [simd.splat_f32s(0.5); ACCUMULATORS];
        for _ in 0..LOOPS {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, a, b);
            }
        }
        black_box(sums.map(|sum| simd.reduce_sum_f32s(sum)));
        S::F32_LANES
    }
}

/// Products of the same tiles; their operations.
fn tiles(unit: Unit) -> f64 {
    const STEPS: usize = 1000;
    const REPEATS: usize = 200;
    let (a, b) = (vec![bf16::ONE; 2 * ROWS * TERMS], vec![0; 2 * ROWS * ROWS]);
    let mut sums = vec![0.0; 4 * ROWS * ROWS];
    let mut steps = Steps::with_capacity(STEPS);
    (0..STEPS).for_each(|_| steps.push(0, 0));
    let tiles = Tiles::new(unit);
    for _ in 0..REPEATS {
        tiles.multiply(Product {
            a: Operand { values: &a, stride: TERMS, count: 2 * ROWS, next: ROWS * TERMS },
            b: Operand { values: &b, stride: ROWS, count: 2 * ROWS, next: ROWS * ROWS },
            steps: &steps,
            of: 0..STEPS,
            terms: TERMS,
            sums: &mut sums,
            stride: 2 * ROWS,
            right: ROWS,
            below: 2 * ROWS * ROWS,
            add: true,
        });
    }
    black_box(&sums);
    (REPEATS * STEPS * 4 * ROWS * ROWS * TERMS * 2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers() {
        let rates = [Some(peak_f32_flops()), peak_bf16_flops()];
        assert!(rates.iter().flatten().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
        assert_eq!(rates[1].is_some(), simd::unit().is_some());
    }
}

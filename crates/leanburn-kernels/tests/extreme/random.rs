//! Dropout and random numbers.

use leanburn_kernels::dropout::{DropoutMask, dropout};
use leanburn_kernels::random::{Distribution, fill};

use super::{Draw, MOST, Outcome, expect_finite, unwritten};

const PROBABILITIES: [f64; 9] = [0.0, 1e-300, 0.1, 0.5, 1.0 - 1e-12, 1.0, -0.1, f64::NAN, f64::INFINITY];

pub fn random(draw: &mut Draw) -> Outcome {
    let (mut run, mut key) = (draw.usual(9), draw.below(1 << 20));
    let runs = draw.below(MOST / 9);
    draw.disturb(&mut [&mut run, &mut key]);
    let len = draw.len(runs.saturating_mul(run).min(MOST));
    let mut values = unwritten(len);
    let distribution = match draw.yes() {
        true => Distribution::Uniform { low: -1e30, high: 1e30 },
        false => Distribution::Normal { mean: 1e30, deviation: 1e30 },
    };
    fill(&mut values, key as u64, distribution);
    expect_finite(&values, len, "random numbers");
    let probability = PROBABILITIES[draw.below(PROBABILITIES.len())];
    fill(&mut values, key as u64, Distribution::STANDARD);
    dropout(&DropoutMask::new(key as u64, probability, run), &mut values);
    expect_finite(&values, len, "what dropout leaves");
    Outcome::Computed
}

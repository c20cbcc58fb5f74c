//! Numbers against their words and their distributions.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use super::{CHUNK, Distribution, fill};

fn filled(count: usize, key: u64, distribution: Distribution) -> Vec<f32> {
    let mut values = vec![f32::NAN; count];
    fill(&mut values, key, distribution);
    values
}

/// One after the other, from the words in their order.
fn expected(count: usize, key: u64, distribution: Distribution) -> Vec<f32> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(seed);
    let pairs = (0..count.div_ceil(2)).flat_map(|_| distribution.numbers([generator.next_u32(), generator.next_u32()]));
    pairs.take(count).collect()
}

#[test]
fn the_words_of_the_generator_decide() {
    for distribution in [Distribution::UNIT, Distribution::STANDARD] {
        for count in [0, 1, 2, 7, CHUNK, 5 * CHUNK + 13] {
            let is_equal = filled(count, 7, distribution) == expected(count, 7, distribution);
            assert!(is_equal, "{count} of {distribution:?}");
        }
    }
}

#[test]
fn extreme_words_give_numbers() {
    let normal = Distribution::STANDARD;
    assert_eq!(normal.numbers([u32::MAX, 0]), [0.0; 2]);
    let [far, none] = normal.numbers([0, 0]);
    assert!((6.6..6.7).contains(&far) && none == 0.0);
    let uniform = Distribution::Uniform { low: -2.0, high: 6.0 };
    assert_eq!(uniform.numbers([0, 1 << 31]), [-2.0, 2.0]);
    assert_eq!(uniform.numbers([1 << 30, u32::MAX]), [0.0, 6.0], "the last one is rounded");
}

#[test]
fn the_number_of_threads_does_not_show() {
    let on_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| filled(20 * CHUNK + 1, 5, Distribution::STANDARD))
    };
    assert!(on_threads(1) == on_threads(3));
}

/// Shares of intervals within 5 standard deviations of the binomial distribution, mean and variance within 5 of theirs.
#[test]
fn the_numbers_have_their_distribution() {
    const COUNT: usize = 1 << 20;
    let shares = |values: &[f32], below: [(f32, f64); 5]| {
        for (bound, share) in below {
            let found = values.iter().filter(|value| **value < bound).count() as f64;
            let (mean, deviation) = (COUNT as f64 * share, (COUNT as f64 * share * (1.0 - share)).sqrt());
            assert!((found - mean).abs() <= 5.0 * deviation, "{found} below {bound}, expected {mean:.0}");
        }
    };
    let uniform = filled(COUNT, 1, Distribution::Uniform { low: -1.0, high: 3.0 });
    shares(&uniform, [(-1.0, 0.0), (-0.9, 0.025), (0.0, 0.25), (2.0, 0.75), (3.1, 1.0)]);
    let normal = filled(COUNT, 2, Distribution::Normal { mean: 1.0, deviation: 2.0 });
    let cumulative = [(-5.0, 0.001_349_898), (-1.0, 0.158_655_25), (1.0, 0.5), (3.0, 0.841_344_75), (7.0, 0.998_650_1)];
    shares(&normal, cumulative);
    let moment =
        |power: i32| normal.iter().map(|value| (f64::from(*value) - 1.0).powi(power)).sum::<f64>() / COUNT as f64;
    let error = 1.0 / (COUNT as f64).sqrt();
    assert!(moment(1).abs() <= 5.0 * 2.0 * error, "mean {}", moment(1));
    assert!((moment(2) / 4.0 - 1.0).abs() <= 5.0 * 2f64.sqrt() * error, "variance {}", moment(2));
}

/// Neighbours, the same places of other keys, and chunks of one key have nothing to do with each other.
#[test]
fn numbers_do_not_depend_on_each_other() {
    const COUNT: usize = 1 << 16;
    let base = filled(COUNT, 1, Distribution::STANDARD);
    let correlation = |a: &[f32], b: &[f32]| {
        let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum();
        sum / (a.len().min(b.len()) as f64).sqrt()
    };
    for other in [filled(COUNT, 2, Distribution::STANDARD), filled(COUNT, 1 << 40, Distribution::STANDARD)] {
        assert!(correlation(&base, &other).abs() <= 5.0, "other keys");
    }
    for shift in [1, 2, 3, 16, CHUNK - 1, CHUNK, CHUNK + 1, 16 * CHUNK] {
        assert!(correlation(&base, &base[shift..]).abs() <= 5.0, "numbers {shift} apart");
    }
}

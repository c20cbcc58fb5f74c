//! Masks and what they leave, against the words of the generator.

use half::{bf16, f16};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use super::{DropoutMask, dropout};
use crate::random::CHUNK;

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| 1.0 + (index % 97) as f32 / 7.0).collect()
}

/// Value by value, from the words in their order.
fn expected(key: u64, probability: f64, run: usize, values: &[f32]) -> Vec<f32> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(seed);
    let of_run = |values: &[f32]| {
        let share = f64::from(generator.next_u32()) / 2f64.powi(32);
        let factor = if share < probability { 0.0 } else { (1.0 / (1.0 - probability)) as f32 };
        values.iter().map(|value| value * factor).collect::<Vec<_>>()
    };
    values.chunks(run).flat_map(of_run).collect()
}

#[test]
fn the_words_of_the_generator_decide() {
    for (run, count) in [(1, 5 * CHUNK + 13), (3, 3 * (2 * CHUNK + 5)), (1, 0), (1, 1)] {
        let mut found = values(count);
        dropout(&DropoutMask::new(7, 0.3, run), &mut found);
        assert!(found == expected(7, 0.3, run, &values(count)), "{count} values in runs of {run}");
    }
}

#[test]
fn half_precision_is_rounded_once() {
    let (mask, x) = (DropoutMask::new(3, 0.1, 1), values(3000));
    let mut wide = x.clone();
    dropout(&mask, &mut wide);
    let (mut half, mut brain): (Vec<f16>, Vec<bf16>) =
        x.iter().map(|value| (f16::from_f32(*value), bf16::from_f32(*value))).unzip();
    let exact: Vec<_> = half.iter().zip(&brain).map(|(half, brain)| (half.to_f32(), brain.to_f32())).collect();
    dropout(&mask, &mut half);
    dropout(&mask, &mut brain);
    for (index, kept) in mask.kept(x.len()).into_iter().enumerate() {
        let factor = mask.factor(kept);
        assert_eq!(half[index], f16::from_f32(exact[index].0 * factor));
        assert_eq!(brain[index], bf16::from_f32(exact[index].1 * factor));
        assert_eq!(wide[index], x[index] * factor);
    }
}

#[test]
fn the_number_of_threads_does_not_show() {
    let on_threads = |threads: usize| {
        let (mut single, mut runs) = (values(20 * CHUNK + 1), values(5 * 3 * CHUNK));
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
            dropout(&DropoutMask::new(5, 0.5, 1), &mut single);
            dropout(&DropoutMask::new(5, 0.5, 5), &mut runs);
        });
        (single, runs)
    };
    assert!(on_threads(1) == on_threads(3));
}

/// Within 5 standard deviations of the binomial distribution.
#[test]
fn the_share_of_zeros_is_the_probability() {
    const COUNT: usize = 1 << 20;
    for (key, probability) in [0.0, 1e-3, 0.1, 0.5, 0.9, 0.999].into_iter().enumerate() {
        let zeros = DropoutMask::new(key as u64, probability, 1).kept(COUNT).iter().filter(|kept| !**kept).count();
        let (mean, count) = (COUNT as f64 * probability, COUNT as f64);
        let deviation = (count * probability * (1.0 - probability)).sqrt();
        assert!((zeros as f64 - mean).abs() <= 5.0 * deviation, "{zeros} zeros, expected {mean:.0}");
    }
}

#[test]
fn keys_have_masks_of_their_own() {
    let half = |key| DropoutMask::new(key, 0.5, 1).kept(4096);
    let equal = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    let base = half(1);
    assert_eq!(base, half(1));
    for other in [half(2), half(1 << 40)] {
        assert!((1888..2208).contains(&equal(&base, &other)), "half of them, within 5 standard deviations");
    }
}

#[test]
#[should_panic = "the probability is NaN, expected at least 0 and below 1"]
fn a_probability_that_is_no_number_panics() {
    _ = DropoutMask::new(0, f64::NAN, 1);
}

#[test]
#[should_panic = "5 values are not a whole number of runs of 2"]
fn a_part_of_a_run_panics() {
    dropout(&DropoutMask::new(0, 0.5, 2), &mut [0f32; 5]);
}

//! Codes against their definition, and what they are for: few bytes and no bias.

use half::{bf16, f16};

use super::{BLOCK, Quantized, narrow, widen};
use crate::kernels::Element;

/// Spread as activations are, not evenly.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7919 % 10_007) as f32 / 5_003.5 - 1.0).powi(3) * 4.0 + 0.5).collect()
}

/// The largest distance of two codes' values, block by block.
fn steps(values: &[f32], channel: usize) -> Vec<f32> {
    let of_block = |block: &[f32]| {
        let most = block.iter().copied().fold(f32::MIN, f32::max);
        let least = block.iter().copied().fold(f32::MAX, f32::min);
        vec![(most - least) / 255.0; block.len()]
    };
    values.chunks(channel).flat_map(|values| values.chunks(BLOCK).flat_map(of_block)).collect()
}

#[test]
fn values_come_back_within_a_step_of_their_block() {
    for (channel, channels) in [(1, 3), (7, 5), (BLOCK, 2), (BLOCK + 1, 2), (3 * BLOCK + 5, 3), (50_000, 1)] {
        let values = values(channel * channels);
        let found: Vec<f32> = Quantized::of(&values, channel, 3).values();
        for ((value, found), step) in values.iter().zip(&found).zip(steps(&values, channel)) {
            assert!((value - found).abs() <= 1.001 * step + 1e-6, "{found} of {value}, step {step}");
        }
    }
    assert!(Quantized::of::<f32>(&[], 5, 1).values::<f32>().is_empty());
}

/// Mean error over keys, in steps: a value's variance is at most a quarter, so the mean's deviation at most 0.5 / sqrt(keys).
#[test]
fn rounding_has_no_bias() {
    const KEYS: usize = 400;
    let values = values(BLOCK);
    let step = steps(&values, BLOCK)[0];
    let mut sums = vec![0.0f64; values.len()];
    for key in 0..KEYS as u64 {
        let found: Vec<f32> = Quantized::of(&values, BLOCK, key).values();
        sums.iter_mut()
            .zip(found.iter().zip(&values))
            .for_each(|(sum, (found, value))| *sum += f64::from(found - value));
    }
    let errors: Vec<f64> = sums.iter().map(|sum| sum / KEYS as f64 / f64::from(step)).collect();
    let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(worst < 5.0 * 0.5 / (KEYS as f64).sqrt(), "{worst} steps");
    assert!(mean.abs() < 5.0 * 0.5 / ((KEYS * values.len()) as f64).sqrt(), "{mean} steps");
}

#[test]
fn a_quarter_of_the_bytes() {
    let volume = values(16 * 4096);
    let quantized = Quantized::of(&volume, 4096, 0);
    let share = quantized.bytes() as f64 / (4 * volume.len()) as f64;
    assert!(share < 0.253, "{share}");
    assert_eq!(quantized.bytes(), volume.len() + 8 * Quantized::blocks(volume.len(), 4096));
}

#[test]
fn equal_values_are_exact_and_what_is_not_finite_is_none() {
    let mut values = vec![0.3f32; 3 * BLOCK];
    assert_eq!(Quantized::of(&values, values.len(), 1).values::<f32>(), values);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        values[BLOCK + 5] = wrong;
        let found: Vec<f32> = Quantized::of(&values, values.len(), 1).values();
        assert!(found[BLOCK..2 * BLOCK].iter().all(|value| value.is_nan()), "{wrong}");
        assert!(found[..BLOCK] == values[..BLOCK] && found[2 * BLOCK..] == values[2 * BLOCK..]);
    }
    let tiny: Vec<f32> = Quantized::of(&[0.0f32, f32::from_bits(3)], 2, 1).values();
    assert!(tiny.iter().all(|value| value.abs() < 1e-37), "{tiny:?}");
}

#[test]
fn half_precision_is_quantised_from_what_it_holds() {
    fn check<E: Element>(values: &[f32], tolerance: f32) {
        let stored: Vec<E> = values.iter().map(|value| E::from_f32(*value)).collect();
        let wide: Vec<f32> = stored.iter().map(|value| value.to_f32()).collect();
        let of_wide: Vec<f32> = Quantized::of(&wide, 100, 9).values();
        let found: Vec<E> = Quantized::of(&stored, 100, 9).values();
        assert!(found.iter().zip(of_wide).all(|(found, wide)| (found.to_f32() - wide).abs() <= tolerance * wide.abs()));
    }
    check::<f16>(&values(500), 1e-3);
    check::<bf16>(&values(500), 8e-3);
}

#[test]
fn the_number_of_threads_does_not_show() {
    let values = values(100 * BLOCK);
    let on_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Quantized::of(&values, 10 * BLOCK + 10 * BLOCK, 5))
    };
    assert_eq!(on_threads(1), on_threads(3));
    assert_ne!(Quantized::of(&values, 20 * BLOCK, 5), Quantized::of(&values, 20 * BLOCK, 6));
}

#[test]
fn bfloat16_and_back() {
    let values = values(100_003);
    let narrow = narrow(&values);
    assert!(narrow.iter().zip(&values).all(|(narrow, value)| *narrow == bf16::from_f32(*value)));
    assert!(widen(&narrow).iter().zip(&narrow).all(|(wide, narrow)| *wide == narrow.to_f32()));
}

#[test]
#[should_panic = "7 values in channels of 3"]
fn a_part_of_a_channel_panics() {
    _ = Quantized::of(&[0f32; 7], 3, 0);
}

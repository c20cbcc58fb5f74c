//! Attention against its definition in float64, on every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::backward::backward_on;
use super::forward::forward_on;
use super::*;
use crate::{Stored, simd};

/// Query, key, value and the gradient of the output.
type Operands<E> = [Vec<E>; 4];

/// Output, logarithms, and the gradients of query, key and value, in float64.
type Results = [Vec<f64>; 5];

/// Uniform operands in `-spread..spread`, rounded to the element.
fn operands<E: Stored>(shape: &AttentionShape, spread: f32, seed: u64) -> Operands<E> {
    let mut rng = StdRng::seed_from_u64(seed);
    [shape.query_len(), shape.key_len(), shape.key_len(), shape.query_len()]
        .map(|len| (0..len).map(|_| E::from_f32(rng.random_range(-spread..spread))).collect())
}

fn shape(
    [batch_size, heads, head_channels]: [usize; 3],
    [query_positions, key_positions]: [usize; 2],
) -> AttentionShape {
    let scale = 1.0 / (head_channels as f32).sqrt();
    AttentionShape { batch_size, heads, head_channels, query_positions, key_positions, scale, block: None }
}

/// The definition, loop by loop: the probabilities are held.
fn reference<E: Stored>(shape: &AttentionShape, operands: &Operands<E>) -> Results {
    let AttentionShape { head_channels: channels, query_positions: queries, key_positions: keys, .. } = *shape;
    let scale = f64::from(shape.scale);
    let [query, key, value, gradient] =
        operands.each_ref().map(|values| values.iter().map(|value| f64::from(value.to_f32())).collect::<Vec<_>>());
    let [mut output, mut query_gradient] = [0, 1].map(|_| vec![0.0; query.len()]);
    let [mut key_gradient, mut value_gradient] = [0, 1].map(|_| vec![0.0; key.len()]);
    let mut logarithms = Vec::new();
    for head in 0..shape.batch_size * shape.heads {
        let along_queries = |channel, position| (head * channels + channel) * queries + position;
        let along_keys = |channel, position| (head * channels + channel) * keys + position;
        for q in 0..queries {
            let dot = |a: &[f64], b: &[f64], k| -> f64 {
                (0..channels).map(|c| a[along_queries(c, q)] * b[along_keys(c, k)]).sum()
            };
            let scores: Vec<f64> = (0..keys).map(|k| scale * dot(&query, &key, k)).collect();
            let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let logarithm = greatest + scores.iter().map(|score| (score - greatest).exp()).sum::<f64>().ln();
            logarithms.push(logarithm);
            let probabilities: Vec<f64> = scores.iter().map(|score| (score - logarithm).exp()).collect();
            let products: Vec<f64> = (0..keys).map(|k| dot(&gradient, &value, k)).collect();
            let projection: f64 = probabilities.iter().zip(&products).map(|(p, product)| p * product).sum();
            for k in 0..keys {
                let score_gradient = scale * probabilities[k] * (products[k] - projection);
                for c in 0..channels {
                    let (q, k_place) = (along_queries(c, q), along_keys(c, k));
                    output[q] += probabilities[k] * value[k_place];
                    value_gradient[k_place] += probabilities[k] * gradient[q];
                    query_gradient[q] += score_gradient * key[k_place];
                    key_gradient[k_place] += score_gradient * query[q];
                }
            }
        }
    }
    [output, logarithms, query_gradient, key_gradient, value_gradient]
}

/// The kernels; results that are not written show as not a number.
fn kernels<E: Stored>(arch: Arch, shape: &AttentionShape, operands: &Operands<E>) -> Results {
    let [query, key, value, gradient] = operands;
    let unwritten = E::from_f32(f32::NAN);
    let [mut output, mut query_gradient] = [0, 1].map(|_| vec![unwritten; query.len()]);
    let [mut key_gradient, mut value_gradient] = [0, 1].map(|_| vec![unwritten; key.len()]);
    let log_sum_exp = forward_on(arch, shape, query, key, value, &mut output);
    let attended = Attended { query, key, value, output: &output, log_sum_exp: &log_sum_exp };
    let gradients = Gradients { query: &mut query_gradient, key: &mut key_gradient, value: &mut value_gradient };
    backward_on(arch, shape, attended, gradient, gradients);
    let exact = |values: Vec<E>| values.into_iter().map(|value| f64::from(value.to_f32())).collect::<Vec<_>>();
    let log_sum_exp = log_sum_exp.into_iter().map(f64::from).collect();
    [exact(output), log_sum_exp, exact(query_gradient), exact(key_gradient), exact(value_gradient)]
}

/// The relative L2 distance of each result.
fn distances(found: &Results, expected: &Results) -> [f64; 5] {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    std::array::from_fn(|index| {
        assert_eq!(found[index].len(), expected[index].len());
        let distance = norm(&mut found[index].iter().zip(&expected[index]).map(|(found, expected)| found - expected));
        distance / norm(&mut expected[index].iter().copied()).max(1e-30)
    })
}

/// Compares kernels and reference implementation on every instruction set, the gradients of query and key with a
/// tolerance of their own.
fn check_apart<E: Stored>(shape: &AttentionShape, operands: &Operands<E>, tolerance: f64, of_scores: f64) {
    let expected = reference(shape, operands);
    for arch in simd::available() {
        let distances = distances(&kernels(arch, shape, operands), &expected);
        let tolerances = [tolerance, tolerance, of_scores, of_scores, tolerance];
        // Written so that what is no number fails.
        let close = distances.iter().zip(tolerances).all(|(distance, tolerance)| *distance <= tolerance);
        assert!(close, "{arch:?} {shape:?} {distances:?}");
    }
}

/// Compares kernels and reference implementation on every instruction set.
fn check<E: Stored>(shape: &AttentionShape, operands: &Operands<E>, tolerance: f64) {
    check_apart(shape, operands, tolerance, tolerance);
}

#[test]
fn sizes_around_panels_and_blocks() {
    for positions in [[1, 2], [7, 7], [100, 100], [2, 193], [193, 2], [48, 64], [49, 65], [241, 130]] {
        let shape = shape([1, 1, 8], positions);
        check(&shape, &operands::<f32>(&shape, 2.0, 1), 2e-6);
    }
    let in_blocks = AttentionShape { block: Some(48), ..shape([1, 1, 8], [241, 130]) };
    check(&in_blocks, &operands::<f32>(&in_blocks, 2.0, 1), 2e-6);
}

#[test]
fn channels_from_one_to_many() {
    for head_channels in [1, 3, 16, 32, 64, 128, 256, 512] {
        let shape = shape([1, 1, head_channels], [70, 90]);
        check(&shape, &operands::<f32>(&shape, 2.0, 2), 2e-6);
    }
}

#[test]
fn long_sums_lose_nothing() {
    for positions in [[3, 20_000], [20_000, 3]] {
        let shape = shape([1, 1, 4], positions);
        check(&shape, &operands::<f32>(&shape, 2.0, 11), 2e-6);
    }
}

#[test]
fn a_single_key_takes_all() {
    let shape = shape([2, 1, 4], [5, 1]);
    let operands = operands::<f32>(&shape, 2.0, 3);
    for arch in simd::available() {
        let [output, _, query_gradient, key_gradient, _] = kernels(arch, &shape, &operands);
        for (place, found) in output.iter().enumerate() {
            assert!((found - f64::from(operands[2][place / 5])).abs() < 1e-6, "{arch:?}");
        }
        // The probability is one regardless of the score.
        assert!(query_gradient.iter().chain(&key_gradient).all(|value| value.abs() < 1e-6), "{arch:?}");
    }
}

#[test]
fn heads_and_items_stay_apart() {
    let shape = shape([3, 2, 5], [60, 75]);
    check(&shape, &operands::<f32>(&shape, 2.0, 4), 2e-6);
}

#[test]
fn scores_of_eighty() {
    let mut shape = shape([1, 2, 16], [90, 150]);
    let operands = operands::<f32>(&shape, 1.0, 5);
    let [query, key, ..] = &operands;
    let greatest = (0..2 * 90 * 150).map(|index| {
        let (head, q, k) = (index / 13_500, index / 150 % 90, index % 150);
        (0..16).map(|c| query[(head * 16 + c) * 90 + q] * key[(head * 16 + c) * 150 + k]).sum::<f32>().abs()
    });
    shape.scale = 80.0 / greatest.fold(0.0, f32::max);
    check(&shape, &operands, 1e-5);
}

#[test]
fn one_dominant_key_wherever_it_stands() {
    let shape = shape([1, 1, 8], [50, 140]);
    for dominant in [0, 63, 64, 139] {
        let mut operands = operands::<f32>(&shape, 1.0, 6);
        operands[0].iter_mut().for_each(|value| *value = value.abs() + 0.5);
        (0..8).for_each(|channel| operands[1][channel * 140 + dominant] = 4.0);
        // Its gradient is the difference of two numbers that agree to three digits, in any float32 arithmetic.
        check_apart(&shape, &operands, 2e-6, 2e-4);
    }
}

#[test]
fn scores_far_below_zero() {
    // About -200, where neighbours in float32 are 3e-5 apart: what the panels hold beyond the last position must not
    // matter.
    let shape = shape([1, 1, 4], [33, 35]);
    let mut operands = operands::<f32>(&shape, 1.0, 7);
    operands[0].iter_mut().for_each(|value| *value = 10.0);
    operands[1].iter_mut().for_each(|value| *value = -10.0 + 0.1 * *value);
    check(&shape, &operands, 1e-4);
}

#[test]
fn half_precision_is_rounded_once() {
    let shape = shape([2, 2, 24], [65, 130]);
    check(&shape, &operands::<f16>(&shape, 1.0, 8), 1e-3);
    check(&shape, &operands::<bf16>(&shape, 1.0, 8), 8e-3);
}

#[test]
fn what_is_no_number_stays_in_its_query() {
    let shape = shape([1, 1, 4], [60, 70]);
    let mut operands = operands::<f32>(&shape, 1.0, 9);
    operands[0][2 * 60 + 17] = f32::NAN;
    for arch in simd::available() {
        let [output, logarithms, ..] = kernels(arch, &shape, &operands);
        assert!(output.iter().enumerate().all(|(place, value)| value.is_nan() == (place % 60 == 17)), "{arch:?}");
        assert!(logarithms.iter().enumerate().all(|(place, value)| value.is_nan() == (place == 17)), "{arch:?}");
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let shape = shape([1, 2, 16], [500, 300]);
    let operands = operands::<f32>(&shape, 2.0, 10);
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| kernels(simd::best(), &shape, &operands))
    };
    let alone = with_threads(1);
    assert!([2, 3, 7].into_iter().all(|threads| with_threads(threads) == alone));
}

#[test]
fn blocks_do_not_change_a_bit_and_take_less() {
    let shape = shape([1, 1, 16], [2000, 1900]);
    let operands = operands::<f32>(&shape, 2.0, 12);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let of_block = |block| {
        let shape = AttentionShape { block, ..shape };
        let workspace = [forward_workspace(&shape), backward_workspace(&shape)];
        (kernels(simd::best(), &shape, &operands), workspace, shape.flops())
    };
    pool.install(|| {
        let (results, workspace, flops) = of_block(None);
        let mut before = (workspace, flops);
        for block in [144, 100, 1] {
            let (found, workspace, flops) = of_block(Some(block));
            assert!(found == results, "{block}");
            assert!(workspace[0] < before.0[0] && workspace[1] < before.0[1], "{block}: {workspace:?}, {before:?}");
            assert!(flops > before.1, "{block}: keys are read more often");
            before = (workspace, flops);
        }
        assert_eq!(of_block(Some(47)).1, before.0, "one panel is the least");
        assert_eq!(of_block(Some(10_000)).1, workspace);
    });
}

#[test]
#[should_panic(expected = "keys of")]
fn a_key_of_another_length_is_rejected() {
    let shape = shape([1, 1, 2], [3, 4]);
    forward(&shape, &[0.0; 6], &[0.0; 8], &[0.0; 7], &mut [0.0; 6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(
        batch in 1usize..3,
        heads in 1usize..3,
        channels in 1usize..40,
        queries in 1usize..120,
        keys in 2usize..150,
        scale in 0.05f32..1.0,
        seed in any::<u64>(),
    ) {
        let shape = AttentionShape { scale, ..shape([batch, heads, channels], [queries, keys]) };
        check(&shape, &operands::<f32>(&shape, 2.0, seed), 1e-5);
    }
}

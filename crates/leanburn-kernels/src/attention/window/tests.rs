//! Attention in windows against its definition in float64, on every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::backward::backward_on;
use super::forward::forward_on;
use super::*;
use crate::{Stored, simd};

/// Query, key, value and the gradient of the output; table and padding.
struct Case<E> {
    shape: WindowShape,
    volumes: [Vec<E>; 4],
    table: Vec<f32>,
    padding: [Vec<f32>; 2],
}

/// Output, logarithms, and the gradients of query, key, value, table and padding, in float64.
type Results = [Vec<f64>; 8];

fn shape(heads: [usize; 3], volume: [usize; 3], window: [usize; 3], shift: [usize; 3]) -> WindowShape {
    WindowShape::new(heads, volume, [window, shift], 1.0 / (heads[2] as f32).sqrt()).unwrap()
}

impl<E: Stored> Case<E> {
    fn new(shape: WindowShape, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut draw = |len: usize| (0..len).map(|_| rng.random_range(-1.5..1.5)).collect::<Vec<f32>>();
        let volumes = [0; 4].map(|_| draw(shape.volume_len()).into_iter().map(E::from_f32).collect());
        let (table, padding) = (draw(shape.table_len()), [0; 2].map(|_| draw(shape.channels())));
        Self { shape, volumes, table, padding }
    }

    fn operands(&self) -> WindowOperands<'_, E> {
        let [query, key, value, _] = &self.volumes;
        WindowOperands {
            query,
            key,
            value,
            table: &self.table,
            padding: self.padding.each_ref().map(|values| &values[..]),
        }
    }

    fn computed(&self, arch: Arch) -> Results {
        let (shape, gradient) = (&self.shape, &self.volumes[3]);
        let [mut output, mut query, mut key, mut value] = [0; 4].map(|_| vec![E::from_f32(f32::NAN); gradient.len()]);
        let logarithms = forward_on(arch, shape, self.operands(), &mut output);
        let gradients = WindowGradients { query: &mut query, key: &mut key, value: &mut value };
        let parameters = backward_on(arch, shape, self.operands(), (&output, &logarithms), gradient, gradients);
        let exact = |values: Vec<E>| values.into_iter().map(|value| f64::from(value.to_f32())).collect::<Vec<_>>();
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
        let [of_key, of_value] = parameters.padding.map(wide);
        [
            exact(output),
            wide(logarithms),
            exact(query),
            exact(key),
            exact(value),
            wide(parameters.table),
            of_key,
            of_value,
        ]
    }

    /// The reference implementation's own steps: pad, roll, cut into windows, look the biases up by an index that is cut
    /// top-left, mask by regions of the rolled volume, roll back.
    fn expected(&self) -> Results {
        let WindowShape { batch_size, heads, head_channels, volume, table_window, window, shift, scale } = self.shape;
        let (channels, positions, tokens) = (heads * head_channels, self.shape.positions(), self.shape.tokens());
        let padded: [usize; 3] = std::array::from_fn(|axis| volume[axis].div_ceil(window[axis]) * window[axis]);
        let wide = |values: &Vec<E>| values.iter().map(|value| f64::from(value.to_f32())).collect::<Vec<_>>();
        let [query, key, value, gradient] = self.volumes.each_ref().map(wide);
        let len = query.len();
        let (mut output, mut logarithms) = (vec![0.0; len], vec![0.0; len / head_channels]);
        let [mut of_query, mut of_key, mut of_value] = [0; 3].map(|_| vec![0.0; len]);
        let (mut of_table, mut of_padding) = (vec![0.0; self.table.len()], [0; 2].map(|_| vec![0.0; channels]));
        let coordinates =
            |index: usize, size: [usize; 3]| [index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]];
        let region = |rolled: [usize; 3]| -> [u8; 3] {
            std::array::from_fn(|axis| {
                let (place, end) = (rolled[axis], padded[axis]);
                u8::from(place + window[axis] >= end) + u8::from(place + shift[axis] >= end)
            })
        };
        let grid = self.shape.grid();
        for (item, head) in (0..batch_size).flat_map(|item| (0..heads).map(move |head| (item, head))) {
            for index in 0..grid.iter().product() {
                let corner = coordinates(index, grid);
                let rolled: Vec<[usize; 3]> = (0..tokens)
                    .map(|token| {
                        let inner = coordinates(token, window);
                        std::array::from_fn(|axis| corner[axis] * window[axis] + inner[axis])
                    })
                    .collect();
                // The place in the volume, or none.
                let places: Vec<Option<usize>> = rolled
                    .iter()
                    .map(|rolled| {
                        let source: [usize; 3] =
                            std::array::from_fn(|axis| (rolled[axis] + shift[axis]) % padded[axis]);
                        let inside = (0..3).all(|axis| source[axis] < volume[axis]);
                        inside.then(|| (source[0] * volume[1] + source[1]) * volume[2] + source[2])
                    })
                    .collect();
                let at = |place: usize, c: usize| (item * channels + head * head_channels + c) * positions + place;
                let read = |values: &[f64], padding: &[f32], token: usize, c: usize| match places[token] {
                    Some(place) => values[at(place, c)],
                    None => f64::from(padding[head * head_channels + c]),
                };
                for (q, place) in places.iter().enumerate().filter_map(|(q, place)| place.map(|place| (q, place))) {
                    let row = |k: usize| {
                        let [a, b] = [q, k].map(|token| coordinates(token, table_window));
                        let difference: [usize; 3] =
                            std::array::from_fn(|axis| a[axis] + table_window[axis] - 1 - b[axis]);
                        let [_, height, width] = table_window.map(|window| 2 * window - 1);
                        ((difference[0] * height + difference[1]) * width + difference[2]) * heads + head
                    };
                    let scores: Vec<f64> = (0..tokens)
                        .map(|k| {
                            let product: f64 = (0..head_channels)
                                .map(|c| query[at(place, c)] * read(&key, &self.padding[0], k, c))
                                .sum();
                            let mask = if region(rolled[q]) == region(rolled[k]) { 0.0 } else { -100.0 };
                            f64::from(scale) * product + f64::from(self.table[row(k)]) + mask
                        })
                        .collect();
                    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let logarithm = greatest + scores.iter().map(|score| (score - greatest).exp()).sum::<f64>().ln();
                    logarithms[(item * heads + head) * positions + place] = logarithm;
                    let probabilities: Vec<f64> = scores.iter().map(|score| (score - logarithm).exp()).collect();
                    let products: Vec<f64> = (0..tokens)
                        .map(|k| {
                            (0..head_channels)
                                .map(|c| gradient[at(place, c)] * read(&value, &self.padding[1], k, c))
                                .sum()
                        })
                        .collect();
                    let mean: f64 = probabilities.iter().zip(&products).map(|(p, product)| p * product).sum();
                    for k in 0..tokens {
                        let of_score = probabilities[k] * (products[k] - mean);
                        of_table[row(k)] += of_score;
                        for c in 0..head_channels {
                            output[at(place, c)] += probabilities[k] * read(&value, &self.padding[1], k, c);
                            of_query[at(place, c)] += f64::from(scale) * of_score * read(&key, &self.padding[0], k, c);
                            let for_key = f64::from(scale) * of_score * query[at(place, c)];
                            let for_value = probabilities[k] * gradient[at(place, c)];
                            match places[k] {
                                Some(key_place) => {
                                    of_key[at(key_place, c)] += for_key;
                                    of_value[at(key_place, c)] += for_value;
                                }
                                None => {
                                    of_padding[0][head * head_channels + c] += for_key;
                                    of_padding[1][head * head_channels + c] += for_value;
                                }
                            }
                        }
                    }
                }
            }
        }
        let [padding_key, padding_value] = of_padding;
        [output, logarithms, of_query, of_key, of_value, of_table, padding_key, padding_value]
    }

    fn check(&self, tolerance: f64) {
        let expected = self.expected();
        // Of a window of one token the gradients of scores are zero, a difference of two sums: their rounding is that of a volume.
        let least = 0.1 * (expected[0].len() as f64).sqrt();
        for arch in simd::available() {
            for (index, (found, expected)) in self.computed(arch).iter().zip(&expected).enumerate() {
                let norm =
                    |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
                let distance = norm(&mut found.iter().zip(expected).map(|(a, b)| a - b));
                let length = norm(&mut expected.iter().copied()).max(least);
                // Written so that what is no number fails.
                assert!(distance <= tolerance * length, "{arch:?} {:?} {index}: {distance:e} of {length}", self.shape);
            }
        }
    }
}

#[test]
fn windows_with_and_without_shift_and_padding() {
    for (volume, window, shift) in [
        ([4, 4, 4], [2, 2, 2], [0; 3]),
        ([4, 4, 4], [2, 2, 2], [1; 3]),
        ([6, 7, 9], [3, 3, 4], [1, 1, 2]),
        ([8, 8, 8], [7, 7, 7], [3; 3]),
        ([1, 9, 8], [1, 7, 7], [0, 3, 3]),
        ([14, 7, 5], [7, 7, 7], [3; 3]),
    ] {
        Case::<f32>::new(shape([1, 2, 3], volume, window, shift), 1).check(3e-6);
    }
}

/// The window is the volume, but the biases are those of the first positions of the full window.
#[test]
fn a_window_that_shrinks_takes_the_biases_of_the_full_one() {
    for volume in [[3, 3, 3], [2, 7, 3], [5, 2, 6]] {
        let shape = shape([2, 1, 4], volume, [7, 7, 7], [3; 3]);
        assert_eq!((shape.window, shape.shift), (volume, [0; 3]));
        Case::<f32>::new(shape, 2).check(3e-6);
    }
}

#[test]
fn channels_and_items() {
    for heads in [[3, 1, 1], [1, 4, 8], [2, 3, 16], [1, 1, 40]] {
        Case::<f32>::new(shape(heads, [5, 4, 6], [4, 4, 4], [2; 3]), 3).check(3e-6);
    }
}

#[test]
fn half_precision_is_rounded_once() {
    let shape = shape([1, 2, 8], [5, 6, 7], [4, 4, 4], [2; 3]);
    Case::<f16>::new(shape, 4).check(2e-3);
    Case::<bf16>::new(shape, 5).check(1.6e-2);
}

#[test]
fn threads_do_not_change_a_bit() {
    let case = Case::<f32>::new(shape([2, 2, 8], [9, 10, 11], [4, 4, 4], [2; 3]), 6);
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| case.computed(simd::best()))
    };
    let alone = with_threads(1);
    assert!([2, 3, 7].into_iter().all(|threads| with_threads(threads) == alone));
}

#[test]
fn every_window_is_in_one_task() {
    for (heads, volume) in [([1, 3, 8], [48; 3]), ([2, 24, 16], [6; 3]), ([100, 1, 1], [14; 3])] {
        let shape = shape(heads, volume, [7; 3], [3; 3]);
        let mut next = 0;
        for windows in (0..shape.tasks_of_head()).map(|task| shape.windows_of(task)) {
            assert!(windows.start == next && windows.end > next, "{shape:?}");
            next = windows.end;
        }
        assert_eq!(next, shape.windows());
    }
}

#[test]
fn shapes_that_do_not_go_together_are_rejected() {
    let error =
        |volume, window, shift| WindowShape::new([1, 1, 1], volume, [window, shift], 1.0).unwrap_err().to_string();
    assert_eq!(
        error([4; 3], [2, 3, 2], [0, 3, 0]),
        "height: expected a shift that is shorter than the window of 3, found 3"
    );
    assert_eq!(error([4, 4, 0], [2; 3], [0; 3]), "width: expected a length of at least 1 for the volume, found 0");
    assert_eq!(error([4; 3], [0, 2, 2], [0; 3]), "depth: expected a length of at least 1 for the window, found 0");
    assert!(error([4; 3], [usize::MAX; 3], [0; 3]).contains("for the table of biases, found"));
}

#[test]
#[should_panic(expected = "the table of biases of")]
fn a_table_of_another_length_is_rejected() {
    let mut case = Case::<f32>::new(shape([1, 1, 2], [4; 3], [2; 3], [0; 3]), 7);
    case.table.pop();
    forward(&case.shape, case.operands(), &mut case.volumes[3].clone());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_shape(
        heads in [1usize..3, 1usize..3, 1usize..12],
        volume in [1usize..8, 1usize..8, 1usize..8],
        window in [1usize..5, 1usize..5, 1usize..5],
        shift in [0usize..5, 0usize..5, 0usize..5],
        seed in any::<u64>(),
    ) {
        let shift = std::array::from_fn(|axis| shift[axis] % window[axis]);
        Case::<f32>::new(shape(heads, volume, window, shift), seed).check(1e-5);
    }
}

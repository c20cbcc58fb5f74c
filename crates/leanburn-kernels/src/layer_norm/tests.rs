//! The norm against its definition in float64, on every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{Stored, simd};

/// Input, gradient of the output, weight and bias.
struct Case<E> {
    shape: LayerShape,
    x: Vec<E>,
    gradient: Vec<E>,
    vectors: Option<[Vec<f32>; 2]>,
}

impl<E: Stored> Case<E> {
    fn new(dims: [usize; 3], is_affine: bool, seed: u64) -> Self {
        let shape = LayerShape::new(dims).unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut draw = |len: usize| (0..len).map(|_| rng.random_range(-1.0..2.0)).collect::<Vec<f32>>();
        let [x, gradient] = [0; 2].map(|_| draw(shape.volume_len()).into_iter().map(E::from_f32).collect());
        let vectors = is_affine.then(|| [0; 2].map(|_| draw(dims[1])));
        Self { shape, x, gradient, vectors }
    }

    fn norm(&self) -> LayerNorm<'_> {
        let [weight, bias] = [0, 1].map(|index| self.vectors.as_ref().map(|vectors| &vectors[index][..]));
        LayerNorm { shape: self.shape, epsilon: 1e-5, weight, bias }
    }

    /// Output, and the gradients of input, weight and bias.
    fn computed(&self, arch: Arch) -> [Vec<f64>; 4] {
        let exact = |values: &[E]| values.iter().map(|value| f64::from(value.to_f32())).collect();
        let mut y = vec![E::from_f32(f32::NAN); self.x.len()];
        self.norm().forward_on(arch, &self.x, &mut y);
        let mut gradient = self.gradient.clone();
        let [weight, bias] = self.norm().backward_on(arch, &self.x, &mut gradient);
        let [weight, bias] = [weight, bias].map(|values| values.into_iter().map(f64::from).collect());
        [exact(&y), exact(&gradient), weight, bias]
    }

    /// The same by the definition.
    fn expected(&self) -> [Vec<f64>; 4] {
        let LayerShape { batch_size, channels, positions } = self.shape;
        let [weight, bias] = [0, 1].map(|index| {
            let given = self.vectors.as_ref().map(|vectors| vectors[index].iter().copied().map(f64::from).collect());
            given.unwrap_or(vec![[1.0, 0.0][index]; channels])
        });
        let [mut y, mut input] = [0; 2].map(|_| vec![0.0; self.x.len()]);
        let [mut of_weight, mut of_bias] = [0; 2].map(|_| vec![0.0; channels]);
        for (item, position) in (0..batch_size).flat_map(|item| (0..positions).map(move |position| (item, position))) {
            let place = |channel: usize| (item * channels + channel) * positions + position;
            let mean_of = |value: &dyn Fn(usize) -> f64| (0..channels).map(value).sum::<f64>() / channels as f64;
            let x = |channel: usize| f64::from(self.x[place(channel)].to_f32());
            let g = |channel: usize| f64::from(self.gradient[place(channel)].to_f32());
            let mean = mean_of(&x);
            let deviation = (mean_of(&|channel| (x(channel) - mean).powi(2)) + f64::from(1e-5f32)).sqrt();
            let normalized = |channel: usize| (x(channel) - mean) / deviation;
            let h = |channel: usize| g(channel) * weight[channel];
            let [first, second] = [mean_of(&h), mean_of(&|channel| h(channel) * normalized(channel))];
            for channel in 0..channels {
                y[place(channel)] = normalized(channel) * weight[channel] + bias[channel];
                input[place(channel)] = (h(channel) - first - normalized(channel) * second) / deviation;
                of_weight[channel] += g(channel) * normalized(channel);
                of_bias[channel] += g(channel);
            }
        }
        [y, input, of_weight, of_bias]
    }

    fn check(&self, tolerance: f64) {
        let expected = self.expected();
        for arch in simd::available() {
            for (index, (found, expected)) in self.computed(arch).iter().zip(&expected).enumerate() {
                let norm =
                    |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
                let distance = norm(&mut found.iter().zip(expected).map(|(a, b)| a - b));
                let length = norm(&mut expected.iter().copied()).max((self.shape.positions as f64).sqrt());
                // Written so that what is no number fails.
                assert!(distance <= tolerance * length, "{arch:?} {:?} {index}: {distance:e} of {length}", self.shape);
            }
        }
    }
}

#[test]
fn sizes_around_tiles() {
    for dims in [[1, 24, 700], [2, 3, 512], [1, 768, 40], [3, 1, 7], [1, 2000, 17], [2, 96, 1100]] {
        Case::<f32>::new(dims, true, 1).check(2e-6);
        Case::<f32>::new(dims, false, 2).check(2e-6);
    }
}

#[test]
fn half_precision_is_rounded_once() {
    Case::<f16>::new([2, 24, 100], true, 3).check(1e-3);
    Case::<bf16>::new([2, 24, 100], true, 4).check(8e-3);
}

#[test]
fn threads_do_not_change_a_bit() {
    let case = Case::<f32>::new([2, 12, 5000], true, 5);
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| case.computed(simd::best()))
    };
    let alone = with_threads(1);
    assert!([2, 3, 7].into_iter().all(|threads| with_threads(threads) == alone));
}

#[test]
fn every_position_is_in_one_task() {
    for dims in [[1, 24, 100_000], [3, 1000, 333], [200, 5, 9], [1, 1, 1]] {
        let shape = LayerShape::new(dims).unwrap();
        let mut next = (0, 0);
        for (item, positions) in (0..shape.tasks()).map(|task| shape.part(task)) {
            assert_eq!((item, positions.start), next, "{shape:?}");
            next = if positions.end == dims[2] { (item + 1, 0) } else { (item, positions.end) };
        }
        assert_eq!(next, (dims[0], 0), "{shape:?}");
    }
}

#[test]
#[should_panic(expected = "weight and bias of")]
fn a_weight_of_another_length_is_rejected() {
    let shape = LayerShape::new([1, 2, 3]).unwrap();
    LayerNorm { shape, epsilon: 1e-5, weight: Some(&[1.0; 3]), bias: None }.forward(&[0f32; 6], &mut [0f32; 6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(dims in [1usize..4, 2usize..70, 1usize..600], is_affine in any::<bool>(), seed in any::<u64>()) {
        Case::<f32>::new(dims, is_affine, seed).check(1e-5);
    }
}

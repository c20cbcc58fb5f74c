//! The plain float64 reference of the norm, and cases to compare on; for tests.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::shape::NormShape;
use crate::buffer::is_under_valgrind;
use crate::{Activation, Stored};

pub(super) const EPSILON: f64 = 1e-5;

pub(super) const ACTIVATIONS: [Activation; 5] =
    [Activation::None, Activation::Silu, Activation::Gelu, Activation::Relu, Activation::LeakyRelu(0.2)];

/// Numbers to norm.
#[derive(Clone, Debug)]
pub(super) struct Case<E> {
    pub(super) shape: NormShape,
    pub(super) x: Vec<E>,
    pub(super) gradient: Vec<E>,
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) activation: Activation,
}

/// What a computation should give, and the size of the terms that it is the sum of: the error scales with these.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    pub(super) values: Vec<f64>,
    pub(super) terms: Vec<f64>,
}

impl Expected {
    fn new(pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        let (values, terms) = pairs.unzip();
        Self { values, terms }
    }

    /// The error in units of the terms, both as Euclidean lengths.
    pub(super) fn error<E: Stored>(&self, actual: &[E]) -> f64 {
        assert_eq!(actual.len(), self.values.len());
        let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
        let mut differences = actual.iter().zip(&self.values).map(|(a, b)| f64::from(a.to_f32()) - b);
        length(&mut differences) / length(&mut self.terms.iter().copied()).max(1e-30)
    }

    /// The relative error, as Euclidean lengths.
    pub(super) fn relative_error(&self, actual: &[f32]) -> f64 {
        Self { terms: self.values.clone(), ..self.clone() }.error(actual)
    }

    /// Whether every value is the expected one, rounded once to an element of so many binary digits.
    pub(super) fn assert_rounded_once<E: Stored>(&self, actual: &[E], digits: i32) {
        assert_eq!(actual.len(), self.values.len());
        for (index, actual) in actual.iter().enumerate() {
            let (actual, expected) = (f64::from(actual.to_f32()), self.values[index]);
            let half_unit = (expected.abs().log2().floor() - f64::from(digits)).exp2();
            let allowed = half_unit + 2e-6 * self.terms[index] + 6e-8;
            assert!((actual - expected).abs() <= allowed, "{index}: {actual} {expected}, allowed {allowed}");
        }
    }
}

impl<E: Stored> Case<E> {
    /// Random numbers around a mean.
    pub(super) fn new(shape: NormShape, [mean, deviation]: [f32; 2], activation: Activation, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let x: Vec<E> =
            (0..shape.elements()).map(|_| E::from_f32(mean + deviation * random.random_range(-1.5f32..2.0))).collect();
        let gradient = x.iter().map(|x| {
            let correlated = 0.3 * (x.to_f32() - mean) / deviation;
            E::from_f32(correlated + random.random_range(-0.5f32..1.0))
        });
        let gradient = gradient.collect();
        let mut parameters = || (0..shape.channels).map(|_| random.random_range(-1.0f32..2.0)).collect();
        let mut case = Self { shape, x, gradient, weight: parameters(), bias: parameters(), activation };
        case.keep_clear_of_kinks();
        case
    }

    /// No gradient where rounding decides on which side of its kink an activation is.
    fn keep_clear_of_kinks(&mut self) {
        let z = Self { activation: Activation::None, ..self.clone() }.forward();
        for (gradient, (z, terms)) in self.gradient.iter_mut().zip(z.values.iter().zip(z.terms)) {
            if z.abs() < 1e-6 * terms {
                *gradient = E::default();
            }
        }
    }

    fn x(&self, index: usize) -> f64 {
        f64::from(self.x[index].to_f32())
    }

    fn channel(&self, index: usize) -> usize {
        index / self.shape.positions % self.shape.channels
    }

    fn group(&self, index: usize) -> usize {
        let item = index / (self.shape.positions * self.shape.channels);
        item * self.shape.groups + self.channel(index) / (self.shape.channels / self.shape.groups)
    }

    fn group_len(&self) -> f64 {
        self.shape.elements() as f64 / (self.shape.batch_size * self.shape.groups) as f64
    }

    /// A function of every element, averaged over each group.
    fn averages(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.shape.batch_size * self.shape.groups];
        (0..self.x.len()).for_each(|index| sums[self.group(index)] += of(index));
        sums.iter().map(|sum| sum / self.group_len()).collect()
    }

    /// A function of every element, summed over each channel.
    fn channel_sums(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.shape.channels];
        (0..self.x.len()).for_each(|index| sums[self.channel(index)] += of(index));
        sums
    }

    /// Mean and reciprocal deviation of each group.
    pub(super) fn statistics(&self) -> [Vec<f64>; 2] {
        let mean = self.averages(|index| self.x(index));
        let variance = self.averages(|index| (self.x(index) - mean[self.group(index)]).powi(2));
        [mean, variance.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect()]
    }

    /// The normed value of each element, and the size of its terms.
    fn normed(&self) -> Vec<(f64, f64)> {
        let [mean, reciprocal] = self.statistics();
        let of = |index: usize| {
            let (x, mean, reciprocal) = (self.x(index), mean[self.group(index)], reciprocal[self.group(index)]);
            ((x - mean) * reciprocal, (x.abs() + mean.abs()) * reciprocal)
        };
        (0..self.x.len()).map(of).collect()
    }

    /// The argument of the activation, and the size of its terms.
    fn argument(&self, index: usize, (normed, terms): (f64, f64)) -> (f64, f64) {
        let channel = self.channel(index);
        let (weight, bias) = (f64::from(self.weight[channel]), f64::from(self.bias[channel]));
        (weight * normed + bias, weight.abs() * terms + bias.abs())
    }

    /// The output.
    pub(super) fn forward(&self) -> Expected {
        Expected::new(self.normed().into_iter().enumerate().map(|(index, normed)| {
            let (z, terms) = self.argument(index, normed);
            (activate(self.activation, z), terms)
        }))
    }

    /// The gradients of the input, the weight and the bias.
    pub(super) fn backward(&self) -> [Expected; 3] {
        let normed = self.normed();
        let h = |index: usize| {
            let (z, terms) = self.argument(index, normed[index]);
            let gradient = f64::from(self.gradient[index].to_f32());
            (gradient * derivative(self.activation, z), gradient.abs() * (1.0 + terms))
        };
        let h: Vec<(f64, f64)> = (0..self.x.len()).map(h).collect();
        let weight = |index: usize| f64::from(self.weight[self.channel(index)]);
        let [_, reciprocal] = self.statistics();
        let plain = self.averages(|index| weight(index) * h[index].0);
        let centred = self.averages(|index| weight(index) * h[index].0 * normed[index].0);
        let plain_terms = self.averages(|index| weight(index).abs() * h[index].1);
        let centred_terms = self.averages(|index| weight(index).abs() * h[index].1 * normed[index].1);
        let input = (0..self.x.len()).map(|index| {
            let group = self.group(index);
            let value = weight(index) * h[index].0 - plain[group] - normed[index].0 * centred[group];
            let terms = weight(index).abs() * h[index].1 + plain_terms[group] + normed[index].1 * centred_terms[group];
            (reciprocal[group] * value, reciprocal[group] * terms)
        });
        let sums = |of: &dyn Fn(usize) -> f64, terms: &dyn Fn(usize) -> f64| Expected {
            values: self.channel_sums(of),
            terms: self.channel_sums(terms),
        };
        [
            Expected::new(input),
            sums(&|index| h[index].0 * normed[index].0, &|index| h[index].1 * normed[index].1),
            sums(&|index| h[index].0, &|index| h[index].1),
        ]
    }
}

pub(crate) fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => x * normal_distribution(x),
        Activation::Relu => x.max(0.0),
        Activation::LeakyRelu(slope) => x * if x > 0.0 { 1.0 } else { f64::from(slope) },
    }
}

pub(super) fn derivative(activation: Activation, x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::None => 1.0,
        Activation::Silu => sigmoid * (1.0 + x * (1.0 - sigmoid)),
        Activation::Gelu => normal_distribution(x) + x * normal_density(x),
        Activation::Relu => f64::from(u8::from(x > 0.0)),
        Activation::LeakyRelu(slope) => [f64::from(slope), 1.0][usize::from(x > 0.0)],
    }
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// `1/2 + density(x) (x + x^3 / 3 + x^5 / (3 5) + ...)`, whose terms have one sign.
fn normal_distribution(x: f64) -> f64 {
    if x.abs() > 12.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + normal_density(x) * sum
}

/// Shapes of all sorts: rows shorter than a vector, than a block, than a chunk, and longer.
pub(super) fn shapes() -> impl Strategy<Value = NormShape> {
    let positions = prop_oneof![4 => 1..40usize, 2 => 40..3000usize, 1 => 16_300..17_500usize];
    (1..3usize, 1..4usize, 1..4usize, positions).prop_map(|(batch_size, groups, channels_per_group, positions)| {
        NormShape { batch_size, channels: groups * channels_per_group, positions, groups }
    })
}

pub(super) fn activations() -> impl Strategy<Value = Activation> {
    prop::sample::select(ACTIVATIONS.to_vec())
}

/// Shapes with a name: one group, each channel its own, one position, odd, several chunks.
pub(super) fn named_shapes() -> [NormShape; 6] {
    [
        NormShape { batch_size: 2, channels: 6, positions: 77, groups: 1 },
        NormShape { batch_size: 2, channels: 6, positions: 77, groups: 6 },
        NormShape { batch_size: 3, channels: 64, positions: 1, groups: 8 },
        NormShape { batch_size: 1, channels: 1, positions: 1025, groups: 1 },
        NormShape { batch_size: 2, channels: 4, positions: 20_011, groups: 2 },
        NormShape { batch_size: 1, channels: 2, positions: 40_000, groups: 1 },
    ]
}

/// Every activation on every named shape; under valgrind one on each, as what is read does not depend on it.
pub(super) fn named_cases() -> impl Iterator<Item = (NormShape, Activation)> {
    let each = if is_under_valgrind() { 1 } else { ACTIVATIONS.len() };
    let of_shape = move |index| ACTIVATIONS.into_iter().cycle().skip(index).take(each);
    named_shapes().into_iter().enumerate().flat_map(move |(index, shape)| of_shape(index).map(move |a| (shape, a)))
}

/// What a computation gives in pools of one and of three threads, the same.
pub(super) fn on_any_number_of_threads<T: PartialEq + std::fmt::Debug + Send>(compute: impl Fn() -> T + Sync) -> T {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let [one, three] = [1, 3].map(|threads| pool(threads).install(&compute));
    assert!(one == three, "the number of threads shows");
    one
}

#[test]
fn the_reference_differentiates_itself() {
    let shape = NormShape { batch_size: 2, channels: 4, positions: 3, groups: 2 };
    for activation in ACTIVATIONS {
        let case = Case::<f32>::new(shape, [0.2, 1.0], activation, 5);
        let [input, weight, bias] = case.backward();
        let loss = |case: &Case<f32>| -> f64 {
            case.forward().values.iter().zip(&case.gradient).map(|(y, g)| y * f64::from(*g)).sum()
        };
        let check = |expected: f64, change: &dyn Fn(&mut Case<f32>, f32)| {
            let step = 1.0 / 1024.0;
            let [mut up, mut down] = [case.clone(), case.clone()];
            change(&mut up, step);
            change(&mut down, -step);
            let slope = (loss(&up) - loss(&down)) / f64::from(2.0 * step);
            assert!((slope - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{activation:?} {slope} {expected}");
        };
        (0..24).for_each(|index| check(input.values[index], &|case, step| case.x[index] += step));
        (0..4).for_each(|index| check(weight.values[index], &|case, step| case.weight[index] += step));
        (0..4).for_each(|index| check(bias.values[index], &|case, step| case.bias[index] += step));
    }
}

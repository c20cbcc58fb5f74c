//! Mean and deviation of each group, in one pass over memory.
//!
//! A block in the first cache is summed, then centred on its own mean and squared; blocks are merged in float64 by
//! [Chan, Golub and LeVeque, Updating Formulae](https://doi.org/10.1007/978-3-642-51461-6_3). Nothing is lost where the
//! mean is much larger than the deviation.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::blocks::{BLOCK, CHUNK, blocks, read};
use super::shape::NormShape;
use crate::Stored;

/// Mean and deviation of each group of each item, `[batch_size, groups]`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatistics {
    /// The mean.
    pub mean: Vec<f32>,
    /// `1 / sqrt(variance + epsilon)`, with the biased variance.
    pub deviation_reciprocal: Vec<f32>,
}

impl GroupStatistics {
    /// The norm as `scale * x + shift` of each channel of each item: two vectors of `[batch_size, channels]`.
    ///
    /// The weight and the bias are per channel; without them the norm is not scaled or shifted further.
    ///
    /// # Numerics
    ///
    /// The shift is computed in float64 for the rounded scale, and rounded once. What remains is an error of about
    /// `6e-8 * |mean| / deviation`, in units of the weight: as much as rounding the input to float32 causes.
    ///
    /// # Panics
    ///
    /// If the statistics, the weight or the bias do not belong to the shape.
    pub fn scale_and_shift(
        &self,
        shape: &NormShape,
        weight: Option<&[f32]>,
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<f32>) {
        self.check(shape);
        for (name, values) in [("weight", weight), ("bias", bias)] {
            let len = values.map_or(shape.channels, <[f32]>::len);
            assert_eq!(len, shape.channels, "the {name} does not have one value for each channel");
        }
        let of_row = |row: usize| {
            let (group, channel) = (shape.group_of(row), row % shape.channels);
            let scale = self.deviation_reciprocal[group] * weight.map_or(1.0, |weight| weight[channel]);
            let bias = bias.map_or(0.0, |bias| f64::from(bias[channel]));
            (scale, (bias - f64::from(self.mean[group]) * f64::from(scale)) as f32)
        };
        (0..shape.rows()).map(of_row).unzip()
    }

    /// Checks that the statistics belong to the shape.
    pub(super) fn check(&self, shape: &NormShape) {
        let groups = shape.batch_size * shape.groups;
        assert_eq!(self.mean.len(), groups, "one mean for each group of each item");
        assert_eq!(self.deviation_reciprocal.len(), groups, "one deviation for each group of each item");
    }
}

/// Mean and centred sum of squares of each group of each item, `[batch_size, groups]`: of a part of a volume, to be merged with those
/// of its other parts.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMoments {
    /// The mean.
    pub mean: Vec<f64>,
    /// The sum of the squared differences from the mean.
    pub squares: Vec<f64>,
}

/// [`group_moments`](super::group_moments) on an instruction set.
pub(crate) fn group_moments_on<E: Stored>(arch: Arch, shape: &NormShape, x: &[E]) -> GroupMoments {
    let (mean, squares) = moments(arch, shape, x).into_iter().map(|group| (group.mean, group.squares)).unzip();
    GroupMoments { mean, squares }
}

/// [`group_statistics`](super::group_statistics) on an instruction set.
pub(crate) fn group_statistics_on<E: Stored>(arch: Arch, shape: &NormShape, x: &[E], epsilon: f64) -> GroupStatistics {
    let groups = moments(arch, shape, x);
    GroupStatistics {
        mean: groups.iter().map(|group| group.mean as f32).collect(),
        deviation_reciprocal: groups.iter().map(|group| (group.variance() + epsilon).sqrt().recip() as f32).collect(),
    }
}

/// The moments of each group of each item.
fn moments<E: Stored>(arch: Arch, shape: &NormShape, x: &[E]) -> Vec<Moments> {
    shape.check(x.len());
    let segments: Vec<(usize, Moments)> = x
        .par_chunks(CHUNK)
        .enumerate()
        .flat_map_iter(|(chunk, values)| arch.dispatch(ChunkMoments { shape, start: chunk * CHUNK, values }))
        .collect();
    let mut groups = vec![Moments::default(); shape.batch_size * shape.groups];
    for (row, moments) in segments {
        let group = &mut groups[shape.group_of(row)];
        *group = group.merged(moments);
    }
    groups
}

/// Count, mean and centred sum of squares.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of both together; the other ones are not of nothing.
    #[inline(always)]
    fn merged(self, other: Self) -> Self {
        let count = self.count + other.count;
        let share = other.count / count;
        let difference = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + difference * share,
            squares: self.squares + other.squares + difference * difference * self.count * share,
        }
    }

    /// The biased variance.
    fn variance(self) -> f64 {
        self.squares / self.count.max(1.0)
    }
}

/// The moments of each row's part of a chunk.
struct ChunkMoments<'a, E> {
    shape: &'a NormShape,
    start: usize,
    values: &'a [E],
}

impl<E: Stored> WithSimd for ChunkMoments<'_, E> {
    type Output = Vec<(usize, Moments)>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let mut buffer = [0.0; BLOCK];
        let mut segments = Vec::with_capacity(self.values.len() / self.shape.positions.max(1) + 2);
        for (row, range) in self.shape.segments(self.start, self.values.len()) {
            let mut moments = Moments::default();
            for block in blocks(range) {
                moments = moments.merged(block_moments(simd, read(&self.values[block], &mut buffer)));
            }
            segments.push((row, moments));
        }
        segments
    }
}

/// The moments of a block, which is not empty.
#[inline(always)]
fn block_moments<S: Simd>(simd: S, values: &[f32]) -> Moments {
    let count = values.len() as f64;
    let centre = (f64::from(sum(simd, values)) / count) as f32;
    let [residue, squares] = centred_sums(simd, values, centre);
    // The centre is not quite the mean; the residue says by how much.
    Moments { count, mean: f64::from(centre) + residue / count, squares: squares - residue * residue / count }
}

/// Chains of additions that do not wait for each other.
const CHAINS: usize = 4;

/// The sum of the values.
#[inline(always)]
fn sum<S: Simd>(simd: S, values: &[f32]) -> f32 {
    let (vectors, rest) = S::as_simd_f32s(values);
    let (bundles, vectors) = vectors.as_chunks::<CHAINS>();
    let mut sums = [simd.splat_f32s(0.0); CHAINS];
    for bundle in bundles {
        for chain in 0..CHAINS {
            sums[chain] = simd.add_f32s(sums[chain], bundle[chain]);
        }
    }
    for vector in vectors {
        sums[0] = simd.add_f32s(sums[0], *vector);
    }
    if !rest.is_empty() {
        sums[1] = simd.add_f32s(sums[1], simd.partial_load_f32s(rest));
    }
    total(simd, sums)
}

/// The sums of the distances from the centre and of their squares.
#[inline(always)]
fn centred_sums<S: Simd>(simd: S, values: &[f32], centre: f32) -> [f64; 2] {
    let (vectors, rest) = S::as_simd_f32s(values);
    let (bundles, vectors) = vectors.as_chunks::<CHAINS>();
    let zero = simd.splat_f32s(0.0);
    let centres = simd.splat_f32s(centre);
    let (mut sums, mut squares) = ([zero; CHAINS], [zero; CHAINS]);
    for bundle in bundles {
        for chain in 0..CHAINS {
            let distance = simd.sub_f32s(bundle[chain], centres);
            sums[chain] = simd.add_f32s(sums[chain], distance);
            squares[chain] = simd.mul_add_e_f32s(distance, distance, squares[chain]);
        }
    }
    for vector in vectors {
        let distance = simd.sub_f32s(*vector, centres);
        sums[0] = simd.add_f32s(sums[0], distance);
        squares[0] = simd.mul_add_e_f32s(distance, distance, squares[0]);
    }
    if !rest.is_empty() {
        let present = simd.mask_between_m32s(0, rest.len() as u32).mask();
        let distance = simd.select_f32s(present, simd.sub_f32s(simd.partial_load_f32s(rest), centres), zero);
        sums[1] = simd.add_f32s(sums[1], distance);
        squares[1] = simd.mul_add_e_f32s(distance, distance, squares[1]);
    }
    [f64::from(total(simd, sums)), f64::from(total(simd, squares))]
}

/// The sum of all lanes of the chains.
#[inline(always)]
fn total<S: Simd>(simd: S, chains: [S::f32s; CHAINS]) -> f32 {
    let halves = [simd.add_f32s(chains[0], chains[1]), simd.add_f32s(chains[2], chains[3])];
    simd.reduce_sum_f32s(simd.add_f32s(halves[0], halves[1]))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::super::entry::group_statistics;
    use super::super::reference::{Case, EPSILON, activations, named_shapes, on_any_number_of_threads, shapes};
    use super::*;
    use crate::{Activation, simd};

    /// Compares with the reference implementation: the mean is rounded once, the deviation holds regardless of the mean.
    fn check<E: Stored>(case: &Case<E>) {
        let [mean, reciprocal] = case.statistics();
        for arch in simd::available() {
            let actual = group_statistics_on(arch, &case.shape, &case.x, EPSILON);
            actual.check(&case.shape);
            for group in 0..mean.len() {
                let error = (f64::from(actual.mean[group]) - mean[group]).abs();
                let allowed = 6e-8 * mean[group].abs() + 5e-7 / reciprocal[group];
                assert!(error <= allowed, "{arch:?} mean {} {}", actual.mean[group], mean[group]);
                let ratio = f64::from(actual.deviation_reciprocal[group]) / reciprocal[group];
                assert!((ratio - 1.0).abs() < 5e-7, "{arch:?} deviation {ratio}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_the_reference(shape in shapes(), activation in activations(), mean in -3f32..3.0, seed: u64) {
            check(&Case::<f32>::new(shape, [mean, 1.0], activation, seed));
        }
    }

    #[test]
    fn named_shapes_and_elements() {
        for shape in named_shapes() {
            check(&Case::<f32>::new(shape, [0.5, 1.0], Activation::None, 1));
            check(&Case::<bf16>::new(shape, [0.5, 1.0], Activation::None, 2));
            check(&Case::<f16>::new(shape, [0.5, 1.0], Activation::None, 3));
        }
    }

    #[test]
    fn a_large_mean_costs_nothing() {
        for shape in named_shapes() {
            check(&Case::<f32>::new(shape, [1e3, 1e-2], Activation::None, 1));
            check(&Case::<f32>::new(shape, [-1e6, 1.0], Activation::None, 2));
        }
    }

    #[test]
    fn blocks_of_different_means() {
        let shape = NormShape { batch_size: 1, channels: 2, positions: 30_000, groups: 1 };
        let mut case = Case::<f32>::new(shape, [0.0, 1e-3], Activation::None, 1);
        case.x.iter_mut().enumerate().for_each(|(index, x)| *x += (index / 700 % 5) as f32 * 100.0);
        check(&case);
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        for (shape, seed) in named_shapes().into_iter().flat_map(|shape| (0..8).map(move |seed| (shape, seed))) {
            let case = Case::<f32>::new(shape, [0.5, 1.0], Activation::None, seed);
            on_any_number_of_threads(|| group_statistics(&shape, &case.x, EPSILON));
        }
    }

    #[test]
    fn values_that_are_no_numbers_stay_in_their_group() {
        let shape = NormShape { batch_size: 1, channels: 2, positions: 100, groups: 2 };
        let mut x = vec![1.0f32; 200];
        x[50] = f32::NAN;
        let statistics = group_statistics(&shape, &x, 1e-5);
        assert!(statistics.mean[0].is_nan() && statistics.deviation_reciprocal[0].is_nan());
        assert_eq!((statistics.mean[1], statistics.deviation_reciprocal[1]), (1.0, 1e-5f64.sqrt().recip() as f32));
    }

    #[test]
    fn an_empty_batch() {
        let shape = NormShape { batch_size: 0, channels: 2, positions: 100, groups: 2 };
        assert_eq!(group_statistics(&shape, &[0f32; 0], 1e-5).mean, [0f32; 0]);
        let shape = NormShape { batch_size: 1, channels: 2, positions: 0, groups: 2 };
        let statistics = group_statistics(&shape, &[0f32; 0], 0.25);
        assert_eq!((statistics.mean, statistics.deviation_reciprocal), (vec![0.0; 2], vec![2.0; 2]));
    }

    #[test]
    fn scale_and_shift_are_the_norm() {
        let shape = NormShape { batch_size: 2, channels: 2, positions: 1, groups: 1 };
        let statistics = GroupStatistics { mean: vec![3.0, -1.0], deviation_reciprocal: vec![0.5, 2.0] };
        let (scale, shift) = statistics.scale_and_shift(&shape, Some(&[1.0, 4.0]), Some(&[10.0, 20.0]));
        assert_eq!((scale, shift), (vec![0.5, 2.0, 2.0, 8.0], vec![8.5, 14.0, 12.0, 28.0]));
        let (scale, shift) = statistics.scale_and_shift(&shape, None, None);
        assert_eq!((scale, shift), (vec![0.5, 0.5, 2.0, 2.0], vec![-1.5, -1.5, 2.0, 2.0]));
    }

    #[test]
    #[should_panic(expected = "one mean for each group")]
    fn statistics_belong_to_their_shape() {
        let shape = NormShape { batch_size: 2, channels: 2, positions: 1, groups: 2 };
        let statistics = GroupStatistics { mean: vec![3.0, -1.0], deviation_reciprocal: vec![0.5, 2.0] };
        statistics.scale_and_shift(&shape, None, None);
    }
}

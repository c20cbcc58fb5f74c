//! Gradients of the norm and its activation, from the input and the statistics alone.
//!
//! With `n = (x - mean) * r`, `z = weight * n + bias` and `h = gradient * activation'(z)`, the gradients of the weight
//! and the bias are the sums of `h * n` and `h` over items and positions, and that of the input is
//! `r * (weight * h - average(weight * h) - n * average(weight * h * n))`, averages over the group.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::blocks::{BLOCK, CHUNK, blocks, edit, read, write_back};
use super::derivative::Argument;
use super::shape::NormShape;
use super::statistics::GroupStatistics;
use crate::{Activation, Stored};

/// A norm and its activation, whose gradients are wanted.
#[derive(Debug)]
pub struct Norm<'a> {
    shape: &'a NormShape,
    statistics: &'a GroupStatistics,
    weight: Option<&'a [f32]>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    activation: Activation,
}

impl<'a> Norm<'a> {
    /// With these statistics, and a weight and a bias of `[channels]`.
    ///
    /// # Panics
    ///
    /// If the statistics, the weight or the bias do not belong to the shape.
    pub fn new(
        shape: &'a NormShape,
        statistics: &'a GroupStatistics,
        [weight, bias]: [Option<&'a [f32]>; 2],
        activation: Activation,
    ) -> Self {
        let (scale, shift) = statistics.scale_and_shift(shape, weight, bias);
        Self { shape, statistics, weight, scale, shift, activation }
    }

    /// [`group_norm_act_backward`](super::group_norm_act_backward) on an instruction set.
    pub(crate) fn backward_on<E: Stored>(&self, arch: Arch, x: &[E], gradient: &mut [E]) -> (Vec<f32>, Vec<f32>) {
        let sums = self.row_sums(arch, x, gradient);
        // In float32 the first pass has left the gradient with the derivative in it.
        let applied = E::as_f32(&[]).is_some();
        let activation = if applied { Activation::None } else { self.activation };
        self.combine(arch, x, &self.lines(&sums, self.shape.positions), activation, gradient);
        self.parameter_gradients(&sums)
    }

    /// [`group_norm_act_sums`](super::group_norm_act_sums) on an instruction set.
    pub(crate) fn sums_on<E: Stored>(&self, arch: Arch, x: &[E], gradient: &mut [E]) -> ChannelSums {
        let (plain, centred) = self.row_sums(arch, x, gradient).iter().map(|sums| (sums.plain, sums.centred)).unzip();
        ChannelSums { plain, centred }
    }

    /// [`group_norm_act_apply`](super::group_norm_act_apply) on an instruction set.
    pub(crate) fn apply_on<E: Stored>(
        &self,
        arch: Arch,
        x: &[E],
        sums: &ChannelSums,
        positions: usize,
        gradient: &mut [E],
    ) {
        let rows = self.shape.rows();
        assert_eq!((sums.plain.len(), sums.centred.len()), (rows, rows), "two sums for each channel of each item");
        let sums =
            sums.plain.iter().zip(&sums.centred).map(|(plain, centred)| Sums { plain: *plain, centred: *centred });
        let lines = self.lines(&sums.collect::<Vec<_>>(), positions);
        self.combine(arch, x, &lines, self.activation, gradient);
    }

    /// Second pass: the gradient of the input, with what is left of the activation.
    fn combine<E: Stored>(&self, arch: Arch, x: &[E], lines: &[Line], activation: Activation, gradient: &mut [E]) {
        self.check(x, gradient);
        let values = x.par_chunks(CHUNK).zip(gradient.par_chunks_mut(CHUNK)).enumerate();
        values.for_each(|(chunk, (x, gradient))| {
            arch.dispatch(Combine { norm: self, start: chunk * CHUNK, lines, activation, x, gradient });
        });
    }

    fn check<E>(&self, x: &[E], gradient: &[E]) {
        self.shape.check(x.len());
        assert_eq!(x.len(), gradient.len(), "input and gradient have the same shape");
    }

    /// The sums of each row; in float32 the derivative is multiplied into the gradient at the same time.
    fn row_sums<E: Stored>(&self, arch: Arch, x: &[E], gradient: &mut [E]) -> Vec<Sums> {
        self.check(x, gradient);
        let values = x.par_chunks(CHUNK).zip(gradient.par_chunks_mut(CHUNK)).enumerate();
        let segments: Vec<(usize, Sums)> = values
            .flat_map_iter(|(chunk, (x, gradient))| {
                arch.dispatch(ChunkSums { norm: self, start: chunk * CHUNK, x, gradient })
            })
            .collect();
        let mut rows = vec![Sums::default(); self.shape.rows()];
        segments.into_iter().for_each(|(row, sums)| rows[row].add(sums));
        rows
    }

    /// What the second pass computes in each row, of a volume with so many positions.
    fn lines(&self, rows: &[Sums], positions: usize) -> Vec<Line> {
        let group_len = self.shape.group_channels() * positions;
        let mut averages = vec![Sums::default(); self.statistics.mean.len()];
        let weight = |row: usize| self.weight.map_or(1.0, |weight| f64::from(weight[row % self.shape.channels]));
        for (row, sums) in rows.iter().enumerate() {
            let share = weight(row) / group_len as f64;
            averages[self.shape.group_of(row)].add(Sums { plain: share * sums.plain, centred: share * sums.centred });
        }
        let line = |row: usize| {
            let group = self.shape.group_of(row);
            let reciprocal = f64::from(self.statistics.deviation_reciprocal[group]);
            Line {
                of_gradient: (reciprocal * weight(row)) as f32,
                of_centred: (-reciprocal.powi(3) * averages[group].centred) as f32,
                constant: (-reciprocal * averages[group].plain) as f32,
            }
        };
        (0..rows.len()).map(line).collect()
    }

    /// The gradients of the weight and the bias.
    fn parameter_gradients(&self, rows: &[Sums]) -> (Vec<f32>, Vec<f32>) {
        let mut channels = vec![Sums::default(); self.shape.channels];
        for (row, sums) in rows.iter().enumerate() {
            let reciprocal = f64::from(self.statistics.deviation_reciprocal[self.shape.group_of(row)]);
            let centred = reciprocal * sums.centred;
            channels[row % self.shape.channels].add(Sums { plain: sums.plain, centred });
        }
        channels.iter().map(|sums| (sums.centred as f32, sums.plain as f32)).unzip()
    }

    /// The mean of a row's group.
    #[inline(always)]
    fn mean(&self, row: usize) -> f32 {
        self.statistics.mean[self.shape.group_of(row)]
    }
}

/// Sums over positions for each channel of each item, `[batch_size, channels]`: those of parts of a volume add up.
///
/// With `h` the gradient before the activation, they are what the gradient of a norm needs to know of the whole volume.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSums {
    /// Of `h`.
    pub plain: Vec<f64>,
    /// Of `h * (x - mean)`.
    pub centred: Vec<f64>,
}

/// Sums of `h`, and of `h * (x - mean)`.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    plain: f64,
    centred: f64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, other: Self) {
        self.plain += other.plain;
        self.centred += other.centred;
    }
}

/// The gradient of the input: `of_gradient * h + of_centred * (x - mean) + constant`.
#[derive(Clone, Copy, Debug)]
struct Line {
    of_gradient: f32,
    of_centred: f32,
    constant: f32,
}

/// First pass: the sums of each row's part of a chunk.
struct ChunkSums<'a, E> {
    norm: &'a Norm<'a>,
    start: usize,
    x: &'a [E],
    gradient: &'a mut [E],
}

impl<E: Stored> WithSimd for ChunkSums<'_, E> {
    type Output = Vec<(usize, Sums)>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { norm, start, x, gradient } = self;
        let (mut x_buffer, mut buffer) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut segments = Vec::with_capacity(x.len() / norm.shape.positions.max(1) + 2);
        for (row, range) in norm.shape.segments(start, x.len()) {
            let argument = Argument { scale: norm.scale[row], shift: norm.shift[row], activation: norm.activation };
            let mut sums = Sums::default();
            for block in blocks(range) {
                let x = read(&x[block.clone()], &mut x_buffer);
                let gradient = edit(&mut gradient[block], &mut buffer);
                sums.add(block_sums(simd, argument, norm.mean(row), x, gradient));
            }
            segments.push((row, sums));
        }
        segments
    }
}

/// The sums of a block, whose gradient becomes `h`.
#[inline(always)]
fn block_sums<S: Simd>(simd: S, argument: Argument, mean: f32, x: &[f32], gradient: &mut [f32]) -> Sums {
    let (xs, x_rest) = S::as_simd_f32s(x);
    let (gradients, gradient_rest) = S::as_mut_simd_f32s(gradient);
    let mean = simd.splat_f32s(mean);
    let (mut plain, mut centred) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    let changed = argument.activation != Activation::None;
    for (x, gradient) in xs.iter().zip(gradients) {
        let h = argument.gradient(simd, *x, *gradient);
        plain = simd.add_f32s(plain, h);
        centred = simd.mul_add_e_f32s(h, simd.sub_f32s(*x, mean), centred);
        if changed {
            *gradient = h;
        }
    }
    if !x_rest.is_empty() {
        let x = simd.partial_load_f32s(x_rest);
        let h = argument.gradient(simd, x, simd.partial_load_f32s(gradient_rest));
        plain = simd.add_f32s(plain, h);
        centred = simd.mul_add_e_f32s(h, simd.sub_f32s(x, mean), centred);
        simd.partial_store_f32s(gradient_rest, h);
    }
    Sums { plain: f64::from(simd.reduce_sum_f32s(plain)), centred: f64::from(simd.reduce_sum_f32s(centred)) }
}

/// Second pass: the gradient of the input.
struct Combine<'a, E> {
    norm: &'a Norm<'a>,
    start: usize,
    lines: &'a [Line],
    activation: Activation,
    x: &'a [E],
    gradient: &'a mut [E],
}

impl<E: Stored> WithSimd for Combine<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { norm, start, lines, activation, x, gradient } = self;
        let (mut x_buffer, mut buffer) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (row, range) in norm.shape.segments(start, x.len()) {
            let argument = Argument { scale: norm.scale[row], shift: norm.shift[row], activation };
            for block in blocks(range) {
                let x = read(&x[block.clone()], &mut x_buffer);
                let gradient = &mut gradient[block];
                combine_block(simd, argument, norm.mean(row), lines[row], x, edit(gradient, &mut buffer));
                write_back(&buffer, gradient);
            }
        }
    }
}

/// The gradient of a block of the input, in place.
#[inline(always)]
fn combine_block<S: Simd>(simd: S, argument: Argument, mean: f32, line: Line, x: &[f32], gradient: &mut [f32]) {
    let (xs, x_rest) = S::as_simd_f32s(x);
    let (gradients, gradient_rest) = S::as_mut_simd_f32s(gradient);
    for (x, gradient) in xs.iter().zip(gradients) {
        *gradient = line.of(simd, *x, argument.gradient(simd, *x, *gradient), mean);
    }
    if !x_rest.is_empty() {
        let x = simd.partial_load_f32s(x_rest);
        let h = argument.gradient(simd, x, simd.partial_load_f32s(gradient_rest));
        simd.partial_store_f32s(gradient_rest, line.of(simd, x, h, mean));
    }
}

impl Line {
    /// The gradient of the input for each value of a vector.
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::f32s, h: S::f32s, mean: f32) -> S::f32s {
        let centred = simd.sub_f32s(x, simd.splat_f32s(mean));
        let rest = simd.mul_add_e_f32s(centred, simd.splat_f32s(self.of_centred), simd.splat_f32s(self.constant));
        simd.mul_add_e_f32s(h, simd.splat_f32s(self.of_gradient), rest)
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::super::entry::{group_norm_act_apply, group_norm_act_backward, group_norm_act_sums};
    use super::super::reference::{
        ACTIVATIONS, Case, EPSILON, activations, named_cases, named_shapes, on_any_number_of_threads, shapes,
    };
    use super::super::statistics::group_statistics_on;
    use super::*;
    use crate::simd;

    /// The gradients of the input, the weight and the bias on an instruction set.
    fn backward<E: Stored>(arch: Arch, case: &Case<E>) -> (Vec<E>, [Vec<f32>; 2]) {
        let statistics = group_statistics_on(simd::best(), &case.shape, &case.x, EPSILON);
        let parameters = [&case.weight, &case.bias].map(|values| Some(values.as_slice()));
        let norm = Norm::new(&case.shape, &statistics, parameters, case.activation);
        let mut gradient = case.gradient.clone();
        let (weight, bias) = norm.backward_on(arch, &case.x, &mut gradient);
        (gradient, [weight, bias])
    }

    /// The largest of the three errors, in units of the terms.
    fn error(arch: Arch, case: &Case<f32>) -> f64 {
        let (input, [weight, bias]) = backward(arch, case);
        let [expected_input, expected_weight, expected_bias] = case.backward();
        expected_input.error(&input).max(expected_weight.error(&weight)).max(expected_bias.error(&bias))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_the_reference(shape in shapes(), activation in activations(), mean in -3f32..3.0, seed: u64) {
            let case = Case::new(shape, [mean, 1.0], activation, seed);
            for arch in simd::available() {
                let error = error(arch, &case);
                prop_assert!(error < 5e-7, "{arch:?} {error}");
            }
        }
    }

    #[test]
    fn named_shapes_and_activations() {
        for (shape, activation) in named_cases() {
            let case = Case::<f32>::new(shape, [0.5, 1.0], activation, 1);
            let expected = case.backward();
            for arch in simd::available() {
                let (input, [weight, bias]) = backward(arch, &case);
                for (expected, actual) in expected.iter().zip([input, weight, bias]) {
                    let error = expected.relative_error(&actual);
                    assert!(error < 2e-6, "{shape:?} {activation:?} {arch:?} {error}");
                }
            }
        }
    }

    #[test]
    fn half_precision_is_rounded_once() {
        fn check<E: Stored>(shape: NormShape, activation: Activation, digits: i32) {
            let case = Case::<E>::new(shape, [0.5, 1.0], activation, 1);
            let [expected_input, expected_weight, expected_bias] = case.backward();
            for arch in simd::available() {
                let (input, [weight, bias]) = backward(arch, &case);
                expected_input.assert_rounded_once(&input, digits);
                assert!(expected_weight.error(&weight) < 5e-7);
                assert!(expected_bias.error(&bias) < 5e-7);
            }
        }
        for (shape, activation) in named_cases() {
            check::<bf16>(shape, activation, 8);
            check::<f16>(shape, activation, 11);
        }
    }

    #[test]
    fn a_large_mean_costs_what_rounding_the_input_costs() {
        for (shape, activation) in named_cases() {
            let case = Case::new(shape, [1e3, 1e-2], activation, 1);
            for arch in simd::available() {
                let error = error(arch, &case);
                assert!(error < 1e-7, "{shape:?} {activation:?} {arch:?} {error}");
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        for shape in named_shapes() {
            let case = Case::<f32>::new(shape, [0.5, 1.0], Activation::Silu, 1);
            on_any_number_of_threads(|| backward(simd::best(), &case));
            let case = Case::<bf16>::new(shape, [0.5, 1.0], Activation::Silu, 1);
            on_any_number_of_threads(|| backward(simd::best(), &case));
        }
    }

    /// Rows cut at a position, as a volume is at a plane.
    fn part<E: Stored>(shape: &NormShape, values: &[E], range: std::ops::Range<usize>) -> Vec<E> {
        values.chunks(shape.positions).flat_map(|row| row[range.clone()].to_vec()).collect()
    }

    #[test]
    fn the_sums_of_parts_add_up_to_the_gradient_of_the_whole() {
        let shape = NormShape { batch_size: 2, channels: 6, positions: 2500, groups: 3 };
        for activation in ACTIVATIONS {
            let case = Case::<f32>::new(shape, [0.5, 1.0], activation, 1);
            let (expected, _) = backward(simd::best(), &case);
            let statistics = group_statistics_on(simd::best(), &shape, &case.x, EPSILON);
            let parameters = [&case.weight, &case.bias].map(|values| Some(values.as_slice()));
            let parts = [0..1100, 1100..2500].map(|range| {
                let shape = NormShape { positions: range.len(), ..shape };
                (shape, part(&case.shape, &case.x, range.clone()), part(&case.shape, &case.gradient, range))
            });
            let sums = parts.clone().map(|(shape, x, mut gradient)| {
                group_norm_act_sums(&Norm::new(&shape, &statistics, parameters, activation), &x, &mut gradient)
            });
            let add = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
            let [first, second] = &sums;
            let whole =
                ChannelSums { plain: add(&first.plain, &second.plain), centred: add(&first.centred, &second.centred) };
            let found = parts.map(|(shape, x, mut gradient)| {
                let norm = Norm::new(&shape, &statistics, parameters, activation);
                group_norm_act_apply(&norm, &x, &whole, case.shape.positions, &mut gradient);
                gradient
            });
            let rows = found[0].chunks(1100).zip(found[1].chunks(1400));
            let found: Vec<f32> = rows.flat_map(|(front, back)| [front, back].concat()).collect();
            let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(error < 1e-6, "{activation:?} {error}");
        }
    }

    #[test]
    fn no_weight_is_a_weight_of_one_and_no_bias_a_bias_of_zero() {
        let shape = named_shapes()[0];
        let case = Case::<f32>::new(shape, [0.5, 1.0], Activation::Silu, 1);
        let statistics = group_statistics_on(simd::best(), &shape, &case.x, EPSILON);
        let gradients = |weight: Option<&[f32]>, bias: Option<&[f32]>| {
            let mut gradient = case.gradient.clone();
            let of =
                group_norm_act_backward(&shape, &case.x, &statistics, weight, bias, case.activation, &mut gradient);
            (gradient, of)
        };
        assert_eq!(gradients(None, None), gradients(Some(&[1.0; 6]), Some(&[0.0; 6])));
        assert_ne!(gradients(None, None), gradients(Some(&case.weight), None));
        assert_ne!(gradients(None, None), gradients(None, Some(&case.bias)));
    }
}

//! The norm and its activation, written out.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::blocks::{BLOCK, CHUNK, blocks, edit, write_back};
use super::shape::NormShape;
use crate::conv::Prologue;
use crate::{Activation, Stored};

/// [`apply`](super::apply) and [`apply_in_place`](super::apply_in_place) on an instruction set; in place without `x`.
pub(crate) fn apply_on<E: Stored>(
    arch: Arch,
    shape: &NormShape,
    x: Option<&[E]>,
    prologue: Prologue,
    output: &mut [E],
) {
    shape.check(output.len());
    assert_eq!(prologue.scale.len(), shape.rows(), "one scale for each channel of each item");
    assert_eq!(prologue.shift.len(), shape.rows(), "one shift for each channel of each item");
    output.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, output)| {
        let start = chunk * CHUNK;
        let x = x.map(|x| &x[start..start + output.len()]);
        arch.dispatch(Apply { shape, start, x, prologue, output });
    });
}

/// The function of a chunk.
struct Apply<'a, E> {
    shape: &'a NormShape,
    start: usize,
    x: Option<&'a [E]>,
    prologue: Prologue<'a>,
    output: &'a mut [E],
}

impl<E: Stored> WithSimd for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut buffer = [0.0; BLOCK];
        for (row, range) in self.shape.segments(self.start, self.output.len()) {
            let map = Map {
                scale: self.prologue.scale[row],
                shift: self.prologue.shift[row],
                activation: self.prologue.activation,
            };
            for block in blocks(range) {
                let output = &mut self.output[block.clone()];
                match self.x.map(|x| &x[block]) {
                    Some(x) => map.convert(simd, x, output, &mut buffer),
                    None => {
                        map.in_place(simd, edit(output, &mut buffer));
                        write_back(&buffer, output);
                    }
                }
            }
        }
    }
}

/// The function of a row.
#[derive(Clone, Copy)]
struct Map {
    scale: f32,
    shift: f32,
    activation: Activation,
}

impl Map {
    /// The function of each value of a vector.
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let normed = simd.mul_add_e_f32s(x, simd.splat_f32s(self.scale), simd.splat_f32s(self.shift));
        self.activation.apply(simd, normed)
    }

    /// The function of a block, through the buffer in half precision.
    #[inline(always)]
    fn convert<S: Simd, E: Stored>(self, simd: S, x: &[E], output: &mut [E], buffer: &mut [f32; BLOCK]) {
        match (E::as_f32(x), E::as_f32_mut(output)) {
            (Some(x), Ok(output)) => self.copy(simd, x, output),
            (_, output) => {
                let buffer = &mut buffer[..x.len()];
                E::widen(x, buffer);
                self.in_place(simd, buffer);
                output.err().into_iter().for_each(|output| E::narrow(buffer, output));
            }
        }
    }

    /// The function of a block, elsewhere.
    #[inline(always)]
    fn copy<S: Simd>(self, simd: S, x: &[f32], output: &mut [f32]) {
        let (vectors, rest) = S::as_simd_f32s(x);
        let (outputs, rest_output) = S::as_mut_simd_f32s(output);
        for (output, vector) in outputs.iter_mut().zip(vectors) {
            *output = self.of(simd, *vector);
        }
        if !rest.is_empty() {
            simd.partial_store_f32s(rest_output, self.of(simd, simd.partial_load_f32s(rest)));
        }
    }

    /// The function of a block, where it stands.
    #[inline(always)]
    fn in_place<S: Simd>(self, simd: S, values: &mut [f32]) {
        let (vectors, rest) = S::as_mut_simd_f32s(values);
        for vector in vectors {
            *vector = self.of(simd, *vector);
        }
        if !rest.is_empty() {
            let last = self.of(simd, simd.partial_load_f32s(rest));
            simd.partial_store_f32s(rest, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::super::entry::{apply, apply_in_place};
    use super::super::reference::{
        Case, EPSILON, activations, named_cases, named_shapes, on_any_number_of_threads, shapes,
    };
    use super::super::statistics::group_statistics_on;
    use super::*;
    use crate::simd;

    /// The output on an instruction set, which is the same in place.
    fn forward<E: Stored>(arch: Arch, case: &Case<E>) -> Vec<E> {
        let statistics = group_statistics_on(simd::best(), &case.shape, &case.x, EPSILON);
        let (scale, shift) = statistics.scale_and_shift(&case.shape, Some(&case.weight), Some(&case.bias));
        let prologue = Prologue { scale: &scale, shift: &shift, activation: case.activation };
        let mut output = vec![E::from_f32(7.0); case.x.len()];
        apply_on(arch, &case.shape, Some(&case.x), prologue, &mut output);
        let mut values = case.x.clone();
        apply_on(arch, &case.shape, None, prologue, &mut values);
        assert_eq!(values, output);
        output
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_the_reference(shape in shapes(), activation in activations(), mean in -3f32..3.0, seed: u64) {
            let case = Case::<f32>::new(shape, [mean, 1.0], activation, seed);
            for arch in simd::available() {
                let error = case.forward().error(&forward(arch, &case));
                prop_assert!(error < 5e-7, "{arch:?} {error}");
            }
        }
    }

    #[test]
    fn named_shapes_and_activations() {
        for (shape, activation) in named_cases() {
            let case = Case::<f32>::new(shape, [0.5, 1.0], activation, 1);
            let expected = case.forward();
            for arch in simd::available() {
                let error = expected.relative_error(&forward(arch, &case));
                assert!(error < 1e-6, "{shape:?} {activation:?} {arch:?} {error}");
            }
        }
    }

    #[test]
    fn half_precision_is_rounded_once() {
        fn check<E: Stored>(shape: NormShape, activation: Activation, digits: i32) {
            let case = Case::<E>::new(shape, [0.5, 1.0], activation, 1);
            let expected = case.forward();
            simd::available().into_iter().for_each(|arch| expected.assert_rounded_once(&forward(arch, &case), digits));
        }
        for (shape, activation) in named_cases() {
            check::<bf16>(shape, activation, 8);
            check::<f16>(shape, activation, 11);
        }
    }

    #[test]
    fn a_large_mean_costs_what_rounding_the_input_costs() {
        for shape in named_shapes() {
            let case = Case::<f32>::new(shape, [1e3, 1e-2], Activation::Silu, 1);
            for arch in simd::available() {
                let error = case.forward().error(&forward(arch, &case));
                assert!(error < 1e-7, "{arch:?} {error}");
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        for shape in named_shapes() {
            let case = Case::<f32>::new(shape, [0.5, 1.0], Activation::Silu, 1);
            on_any_number_of_threads(|| forward(simd::best(), &case));
        }
    }

    #[test]
    fn both_entries_use_the_best_instruction_set() {
        let shape = NormShape { batch_size: 1, channels: 2, positions: 33, groups: 1 };
        let case = Case::<f32>::new(shape, [0.0, 1.0], Activation::Silu, 1);
        let prologue = Prologue { scale: &[1.5, -1.0], shift: &[0.0, 2.0], activation: case.activation };
        let [mut output, mut expected] = [vec![0.0; 66], vec![0.0; 66]];
        apply(&shape, &case.x, prologue, &mut output);
        apply_on(simd::best(), &shape, Some(&case.x), prologue, &mut expected);
        assert_eq!(output, expected);
        let mut values = case.x.clone();
        apply_in_place(&shape, &mut values, prologue);
        assert_eq!(values, expected);
    }

    #[test]
    #[should_panic(expected = "one scale for each channel of each item")]
    fn scales_belong_to_the_shape() {
        let shape = NormShape { batch_size: 2, channels: 2, positions: 3, groups: 1 };
        let prologue = Prologue { scale: &[1.0; 2], shift: &[0.0; 4], activation: Activation::None };
        apply_in_place(&shape, &mut [0f32; 12], prologue);
    }
}

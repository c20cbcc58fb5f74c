//! The gradient of an activation, with or without a norm before it.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::blocks::{BLOCK, CHUNK, blocks, edit, read, write_back};
use crate::{Activation, Stored};

/// [`act_backward`](super::act_backward) on an instruction set.
pub(crate) fn act_backward_on<E: Stored>(arch: Arch, x: &[E], activation: Activation, gradient: &mut [E]) {
    assert_eq!(x.len(), gradient.len(), "input and gradient have the same shape");
    if activation == Activation::None {
        return;
    }
    let values = x.par_chunks(CHUNK).zip(gradient.par_chunks_mut(CHUNK));
    values.for_each(|(x, gradient)| arch.dispatch(Derivative { x, activation, gradient }));
}

/// What stands before the activation: `scale * x + shift`.
#[derive(Clone, Copy)]
pub(super) struct Argument {
    pub(super) scale: f32,
    pub(super) shift: f32,
    pub(super) activation: Activation,
}

impl Argument {
    /// `h`: the gradient times the derivative.
    #[inline(always)]
    pub(super) fn gradient<S: Simd>(self, simd: S, x: S::f32s, gradient: S::f32s) -> S::f32s {
        if self.activation == Activation::None {
            return gradient;
        }
        let argument = simd.mul_add_e_f32s(x, simd.splat_f32s(self.scale), simd.splat_f32s(self.shift));
        simd.mul_f32s(gradient, self.activation.derivative(simd, argument))
    }
}

/// The activation's own gradient, in a chunk.
struct Derivative<'a, E> {
    x: &'a [E],
    activation: Activation,
    gradient: &'a mut [E],
}

impl<E: Stored> WithSimd for Derivative<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (mut x_buffer, mut buffer) = ([0.0; BLOCK], [0.0; BLOCK]);
        let argument = Argument { scale: 1.0, shift: 0.0, activation: self.activation };
        for block in blocks(0..self.x.len()) {
            let x = read(&self.x[block.clone()], &mut x_buffer);
            let gradient = &mut self.gradient[block];
            derivative_block(simd, argument, x, edit(gradient, &mut buffer));
            write_back(&buffer, gradient);
        }
    }
}

/// The activation's own gradient, in a block.
#[inline(always)]
fn derivative_block<S: Simd>(simd: S, argument: Argument, x: &[f32], gradient: &mut [f32]) {
    let (xs, x_rest) = S::as_simd_f32s(x);
    let (gradients, gradient_rest) = S::as_mut_simd_f32s(gradient);
    for (x, gradient) in xs.iter().zip(gradients) {
        *gradient = argument.gradient(simd, *x, *gradient);
    }
    if !x_rest.is_empty() {
        let h = argument.gradient(simd, simd.partial_load_f32s(x_rest), simd.partial_load_f32s(gradient_rest));
        simd.partial_store_f32s(gradient_rest, h);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::super::entry::act_backward;
    use super::super::reference::{Case, Expected, derivative, named_cases, named_shapes, on_any_number_of_threads};
    use super::super::shape::NormShape;
    use super::*;
    use crate::simd;

    fn expected<E: Stored>(case: &Case<E>) -> Expected {
        let of =
            |(x, gradient): (&E, &E)| f64::from(gradient.to_f32()) * derivative(case.activation, f64::from(x.to_f32()));
        let terms = case.gradient.iter().map(|gradient| f64::from(gradient.to_f32()).abs()).collect();
        Expected { values: case.x.iter().zip(&case.gradient).map(of).collect(), terms }
    }

    fn backward<E: Stored>(arch: Arch, case: &Case<E>) -> Vec<E> {
        let mut gradient = case.gradient.clone();
        act_backward_on(arch, &case.x, case.activation, &mut gradient);
        gradient
    }

    #[test]
    fn agrees_with_the_reference() {
        fn check<E: Stored>(shape: NormShape, activation: Activation, digits: i32) {
            let case = Case::<E>::new(shape, [0.0, 2.0], activation, 1);
            let expected = expected(&case);
            simd::available().into_iter().for_each(|arch| expected.assert_rounded_once(&backward(arch, &case), digits));
        }
        for (shape, activation) in named_cases() {
            let case = Case::<f32>::new(shape, [0.0, 2.0], activation, 1);
            let expected = expected(&case);
            for arch in simd::available() {
                let error = expected.error(&backward(arch, &case));
                assert!(error < 5e-7, "{shape:?} {activation:?} {arch:?} {error}");
            }
            check::<bf16>(shape, activation, 8);
            check::<f16>(shape, activation, 11);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let case = Case::<f32>::new(named_shapes()[4], [0.0, 2.0], Activation::Silu, 1);
        let gradient = on_any_number_of_threads(|| backward(simd::best(), &case));
        let mut again = case.gradient.clone();
        act_backward(&case.x, case.activation, &mut again);
        assert_eq!(gradient, again);
    }

    #[test]
    #[should_panic(expected = "same shape")]
    fn the_slices_have_one_length() {
        act_backward(&[0f32; 3], Activation::Silu, &mut [0f32; 4]);
    }
}

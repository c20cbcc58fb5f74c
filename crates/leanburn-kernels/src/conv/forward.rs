//! The forward pass.

use pulp::Arch;

use crate::Stored;
use crate::conv::check::check;
use crate::conv::gather::problem::Gather;
use crate::conv::method;
use crate::conv::operands::Input;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::shape::ConvShape;

/// [`forward`](crate::conv::forward()) on a given instruction set.
pub(crate) fn forward_on<E: Stored>(
    arch: Arch,
    shape: &ConvShape,
    input: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    forward_by(method::run, arch, shape, input, weight, output);
}

/// [`forward_on`] by one of the [methods](method).
pub(crate) fn forward_by<E: Stored>(
    run: impl FnOnce(&Gather, Arch, Input<'_, E>, &[f32], SharedOutput<'_, E>),
    arch: Arch,
    shape: &ConvShape,
    input: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    let volumes = [(shape.channels_in, shape.input_len()), (shape.channels_out, shape.output_len())];
    check(shape, &input, volumes[0], weight, &output, volumes[1]);
    if output.len > 0 {
        run(&Gather::forward(shape), arch, input, weight, output);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::conv::entry::forward;
    use crate::conv::operands::{Output, Residual};
    use crate::conv::reference::{Case, ResidualKind, cases, compare, cube, random};
    use crate::{Activation, simd};

    fn check_case(case: &Case) {
        for arch in simd::available() {
            compare::<f32>(case, true, 2e-7, &|s, i, w, o| forward_on(arch, s, i, w, o.into()));
        }
        compare::<bf16>(case, true, 0.00391, &|s, i, w, o| forward_on(simd::best(), s, i, w, o.into()));
        compare::<f16>(case, true, 0.0005, &|s, i, w, o| forward(s, i, w, o));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_shape_agrees_with_plain_loops(case in cases()) {
            check_case(&case);
        }
    }

    #[test]
    fn shapes_of_models() {
        let shapes = [
            cube([1, 32], 9, 3, 1, 1),
            cube([32, 1], 9, 3, 1, 1),
            cube([16, 16], 10, 3, 1, 1),
            cube([40, 9], 7, 1, 1, 0),
            cube([8, 24], 12, 4, 2, 1),
            cube([3, 3], 25, 3, 2, 1),
            ConvShape { stride: [1, 2, 2], ..cube([6, 10], 11, 3, 1, 1) },
            ConvShape { input: [3, 1, 150], ..cube([2, 5], 1, 3, 1, 1) },
            ConvShape { groups: 24, ..cube([24, 24], 8, 3, 1, 1) },
        ];
        for shape in shapes {
            check_case(&Case::plain(shape));
            let prologue = Some(Activation::Silu);
            check_case(&Case { shape, prologue, bias: true, residual: ResidualKind::Of, seed: 2 });
        }
    }

    #[test]
    fn many_channels_take_narrow_tiles() {
        let shapes = [
            // Tiles of columns, and of rows.
            ConvShape { input: [2, 3, 140], ..cube([600, 2], 1, 3, 1, 1) },
            ConvShape { input: [3, 41, 20], ..cube([64, 2], 1, 3, 1, 1) },
            ConvShape { input: [3, 81, 20], ..cube([64, 2], 1, 3, 2, 1) },
            // Output channels in the lanes, and weights in parts.
            cube([160, 32], 3, 3, 1, 1),
            cube([160, 32], 7, 2, 2, 0),
        ];
        for shape in shapes {
            for arch in simd::available() {
                let case = Case::plain(shape);
                compare::<f32>(&case, true, 2e-7, &|s, i, w, o| forward_on(arch, s, i, w, o.into()));
            }
        }
    }

    #[test]
    fn nothing_comes_of_a_kernel_that_does_not_fit() {
        let shape = cube([2, 3], 2, 3, 1, 0);
        forward::<f32>(&shape, Input::plain(&[0.5; 16]), &[0.0; 162], Output::plain(&mut []));
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let shape = ConvShape { batch_size: 2, ..cube([5, 7], 13, 3, 1, 1) };
        let (input, weight) = (random(shape.input_len(), 1), random(shape.weight_len(), 2));
        let on = |threads| {
            let mut output = vec![0.0; shape.output_len()];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| forward(&shape, Input::plain(&input), &weight, Output::plain(&mut output)));
            output
        };
        let one = on(1);
        assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one));
    }

    #[test]
    #[should_panic(expected = "the weight is not of the length that the shape says")]
    fn a_short_weight_is_rejected() {
        let shape = cube([1, 1], 2, 1, 1, 0);
        forward::<f32>(&shape, Input::plain(&[0.0; 8]), &[], Output::plain(&mut [0.0; 8]));
    }

    #[test]
    #[should_panic(expected = "the residual is not as long as the output")]
    fn a_short_residual_is_rejected() {
        let shape = cube([1, 1], 2, 1, 1, 0);
        let output = Output { values: &mut [0.0; 8], bias: None, residual: Residual::Of(&[0.0; 7]) };
        forward::<f32>(&shape, Input::plain(&[0.0; 8]), &[1.0], output);
    }
}

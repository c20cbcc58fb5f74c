//! The gradient of the input, which is the transposed convolution.

use pulp::Arch;

use crate::Stored;
use crate::conv::check::check;
use crate::conv::gather::problem::Gather;
use crate::conv::method;
use crate::conv::operands::Input;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::shape::ConvShape;

/// [`data_gradient`](crate::conv::data_gradient()) on a given instruction set.
pub(crate) fn data_gradient_on<E: Stored>(
    arch: Arch,
    shape: &ConvShape,
    gradient: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    data_gradient_by(method::run, arch, shape, gradient, weight, output);
}

/// [`data_gradient_on`] by one of the [methods](method).
pub(crate) fn data_gradient_by<E: Stored>(
    run: impl FnOnce(&Gather, Arch, Input<'_, E>, &[f32], SharedOutput<'_, E>),
    arch: Arch,
    shape: &ConvShape,
    gradient: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    let volumes = [(shape.channels_out, shape.output_len()), (shape.channels_in, shape.input_len())];
    check(shape, &gradient, volumes[0], weight, &output, volumes[1]);
    if output.len > 0 {
        run(&Gather::data_gradient(shape), arch, gradient, weight, output);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::conv::entry::data_gradient;
    use crate::conv::operands::Output;
    use crate::conv::reference::{Case, ResidualKind, cases, compare, cube};
    use crate::{Activation, simd};

    fn check_case(case: &Case) {
        for arch in simd::available() {
            compare::<f32>(case, false, 2e-7, &|s, i, w, o| data_gradient_on(arch, s, i, w, o.into()));
        }
        compare::<bf16>(case, false, 0.00391, &|s, i, w, o| data_gradient_on(simd::best(), s, i, w, o.into()));
        compare::<f16>(case, false, 0.0005, &|s, i, w, o| data_gradient(s, i, w, o));
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
            cube([32, 1], 9, 3, 1, 1),
            cube([16, 16], 10, 3, 1, 1),
            cube([9, 40], 7, 1, 1, 0),
            cube([24, 8], 12, 4, 2, 1),
            cube([3, 3], 25, 3, 2, 1),
            // Between the places that are read, none is reached.
            cube([5, 4], 9, 1, 2, 0),
            // More padding than the kernel reaches.
            cube([5, 4], 4, 2, 3, 3),
            ConvShape { stride: [1, 2, 2], ..cube([6, 10], 11, 3, 1, 1) },
            ConvShape { groups: 12, ..cube([24, 12], 8, 3, 2, 1) },
        ];
        for shape in shapes {
            check_case(&Case::plain(shape));
            let prologue = Some(Activation::LeakyRelu(0.2));
            check_case(&Case { shape, prologue, bias: true, residual: ResidualKind::InPlace, seed: 2 });
        }
    }

    #[test]
    fn many_channels_take_narrow_tiles() {
        let shapes = [
            ConvShape { input: [2, 3, 290], ..cube([2, 600], 1, 3, 2, 1) },
            ConvShape { input: [3, 90, 40], ..cube([2, 96], 1, 3, 2, 1) },
            cube([32, 160], 6, 4, 2, 1),
        ];
        for shape in shapes {
            for arch in simd::available() {
                let case = Case::plain(shape);
                compare::<f32>(&case, false, 2e-7, &|s, i, w, o| data_gradient_on(arch, s, i, w, o.into()));
            }
        }
    }

    #[test]
    fn of_nothing_the_bias_remains() {
        let shape = cube([2, 3], 2, 3, 1, 0);
        let mut values = [f32::NAN; 16];
        let output = Output { bias: Some(&[1.0, 2.0]), ..Output::plain(&mut values) };
        data_gradient(&shape, Input::plain(&[]), &[1.0; 162], output);
        assert_eq!((values[..8].to_vec(), values[8..].to_vec()), (vec![1.0; 8], vec![2.0; 8]));
    }
}

//! Transformed planes against plain loops.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;

use super::DepthTransform;
use crate::conv::operands::{Input, Output};
use crate::conv::reference::{Case, ResidualKind, cases, compare_with_largest, cube, exact_and_found, gather, random};
use crate::conv::shape::ConvShape;
use crate::{Activation, Stored, simd};

/// By transformed planes, whether that pays or not.
fn transformed<E: Stored>(
    arch: Arch,
    forward: bool,
    shape: &ConvShape,
    input: Input<'_, E>,
    weight: &[f32],
    output: Output<'_, E>,
) {
    let gather = gather(shape, forward);
    let transforms = DepthTransform::phases(&gather.axes[0]);
    assert!(!transforms.is_empty(), "{shape:?}");
    let output = output.into();
    transforms.into_iter().for_each(|transform| gather.run(arch, Some(transform), input, weight, &output));
}

/// Compares with plain loops. What is transformed is a group of planes.
fn compare<E: Stored>(case: &Case, forward: bool, tolerance: f64, arch: Arch) {
    compare_with_largest::<E>(case, forward, tolerance, &|s, i, w, o| transformed(arch, forward, s, i, w, o));
}

fn check_case(case: &Case) {
    for forward in [true, false] {
        for arch in simd::available() {
            compare::<f32>(case, forward, 2e-7, arch);
        }
        compare::<bf16>(case, forward, 0.00391, simd::best());
        compare::<f16>(case, forward, 0.0005, simd::best());
    }
}

/// The case with another kernel along the depth, of stride one, and the rest as it is.
fn of_depth(mut case: Case, depth: usize, kernel: usize) -> Case {
    let shape = &mut case.shape;
    (shape.input[0], shape.kernel[0], shape.stride[0], shape.dilation[0]) = (depth, kernel, 1, 1);
    case
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_shape_agrees_with_plain_loops(case in cases(), depth in 1usize..=13, kernel in 2usize..=4) {
        check_case(&of_depth(case, depth, kernel));
    }
}

#[test]
fn every_depth() {
    for (depth, kernel) in (1..=13).flat_map(|depth| [(depth, 2), (depth, 3), (depth, 4)]) {
        for padding in [[0, 0], [1, 1], [0, 2], [3, 1], [4, 0]] {
            if depth + padding[0] + padding[1] >= kernel {
                let mut shape = ConvShape { kernel: [kernel, 3, 2], stride: [1, 2, 1], ..cube([3, 5], 5, 3, 1, 1) };
                (shape.input[0], shape.padding[0]) = (depth, padding);
                let (prologue, residual) = (Some(Activation::Silu), ResidualKind::InPlace);
                check_case(&Case { shape, prologue, bias: true, residual, seed: 3 });
            }
        }
    }
}

/// The data gradient of a convolution with a stride of two, which is what an enlargement is folded to.
#[test]
fn every_depth_of_two_phases() {
    for depth in (3..=14).chain([26]) {
        for (kernel, padding) in [(4, [1, 1]), (4, [2, 2]), (4, [0, 1]), (4, [3, 0]), (6, [2, 2]), (8, [3, 3])] {
            if depth + padding[0] + padding[1] >= kernel {
                let mut shape = ConvShape { kernel: [kernel, 4, 2], stride: [2; 3], ..cube([3, 5], 5, 3, 1, 1) };
                (shape.input[0], shape.padding[0]) = (depth, padding);
                let case = Case {
                    shape,
                    prologue: Some(Activation::Silu),
                    bias: true,
                    residual: ResidualKind::InPlace,
                    seed: 3,
                };
                for arch in simd::available() {
                    compare::<f32>(&case, false, 2e-7, arch);
                }
            }
        }
    }
}

#[test]
fn shapes_of_models() {
    let shapes = [
        ConvShape { stride: [1, 2, 2], ..cube([16, 24], 9, 3, 1, 1) },
        cube([16, 16], 9, 4, 1, 1),
        // Output channels in the lanes, and weights in parts.
        ConvShape { stride: [1, 2, 2], input: [9, 8, 7], ..cube([70, 33], 1, 3, 1, 1) },
        ConvShape { input: [5, 5, 4], ..cube([260, 32], 1, 3, 1, 1) },
        // Tiles of columns, and of rows.
        ConvShape { input: [5, 1, 140], kernel: [3, 1, 3], ..cube([300, 2], 1, 3, 1, 1) },
        ConvShape { input: [5, 41, 20], ..cube([24, 2], 1, 3, 1, 1) },
        ConvShape { groups: 3, kernel: [3, 1, 1], ..cube([24, 12], 8, 3, 1, 1) },
    ];
    for shape in shapes {
        let residual = ResidualKind::Of;
        let case = Case { shape, prologue: Some(Activation::Silu), bias: true, residual, seed: 2 };
        for (forward, arch) in
            [true, false].into_iter().flat_map(|way| simd::available().into_iter().map(move |arch| (way, arch)))
        {
            compare::<f32>(&case, forward, 2e-7, arch);
        }
    }
}

#[test]
fn where_it_pays() {
    let pays = |shape: &ConvShape| [true, false].map(|forward| !DepthTransform::of(&gather(shape, forward)).is_empty());
    let plain = cube([16, 16], 16, 3, 1, 1);
    for shape in [plain, ConvShape { stride: [1, 2, 2], ..plain }, cube([16, 16], 12, 4, 1, 1)] {
        assert_eq!(pays(&shape), [true, true], "{shape:?}");
    }
    let direct = [
        ConvShape { stride: [2, 1, 1], ..plain },
        ConvShape { dilation: [2, 1, 1], ..plain },
        ConvShape { kernel: [2, 3, 3], ..cube([7, 7], 16, 3, 1, 1) },
        ConvShape { kernel: [5, 3, 3], ..plain },
        ConvShape { kernel: [3, 1, 1], padding: [[1, 1], [0, 0], [0, 0]], ..plain },
        ConvShape { input: [2, 32, 32], ..plain },
        cube([1, 32], 16, 3, 1, 1),
        cube([32, 1], 16, 3, 1, 1),
        cube([512, 512], 4, 3, 1, 1),
        // Nine planes of one of two phases, of two neighbours each: three groups of four.
        cube([32, 64], 17, 4, 2, 1),
    ];
    for shape in direct {
        assert_eq!(pays(&shape), [false, false], "{shape:?}");
    }
    let folded = |depth| {
        let shape = ConvShape { kernel: [4; 3], stride: [2; 3], ..cube([32, 32], 16, 4, 1, 1) };
        pays(&ConvShape { input: [depth, 16, 16], ..shape })
    };
    assert_eq!([4, 8, 10, 16].map(folded), [false, true, false, true].map(|pays| [false, pays]));
}

#[test]
fn the_sums_stay_exact() {
    for (kernel, most) in [(2, 1e-6), (3, 1e-6), (4, 1.4e-6)] {
        let case = Case::plain(cube([64, 8], 12, kernel, 1, 1));
        let run = |s: &_, i: Input<'_, f32>, w: &_, o: Output<'_, f32>| transformed(simd::best(), true, s, i, w, o);
        let (exact, found) = exact_and_found::<f32>(&case, true, &run);
        let square = |value: f64| value * value;
        let wrong: f64 = exact.iter().zip(&found).map(|(exact, found)| square(f64::from(*found) - exact.value)).sum();
        let error = (wrong / exact.iter().map(|exact| square(exact.value)).sum::<f64>()).sqrt();
        assert!(error < most, "{kernel} {error}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    for channels in [[9, 7], [50, 40]] {
        let shape = ConvShape { batch_size: 2, input: [19, 13, 11], stride: [1, 2, 2], ..cube(channels, 1, 3, 1, 1) };
        let (input, weight) = (random(shape.input_len(), 1), random(shape.weight_len(), 2));
        let on = |threads| {
            let mut output = vec![0.0; shape.output_len()];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let output_of = Output::plain(&mut output);
            pool.install(|| transformed(simd::best(), true, &shape, Input::plain(&input), &weight, output_of));
            output
        };
        let one = on(1);
        assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one));
    }
}

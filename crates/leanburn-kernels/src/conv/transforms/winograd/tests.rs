//! Transformed rows against plain loops.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;

use super::run::{fits, pays, run};
use crate::buffer::is_under_valgrind;
use crate::conv::operands::{Input, Output};
use crate::conv::reference::{Case, ResidualKind, cases, compare_with_largest, cube, exact_and_found, gather, random};
use crate::conv::shape::ConvShape;
use crate::{Activation, Stored, simd};

/// By transformed rows, whether that pays or not.
fn transformed<E: Stored>(
    arch: Arch,
    forward: bool,
    shape: &ConvShape,
    input: Input<'_, E>,
    weight: &[f32],
    output: Output<'_, E>,
) {
    let gather = gather(shape, forward);
    assert!(fits(&gather), "{shape:?}");
    run(&gather, arch, input, weight, output.into());
}

/// Compares with plain loops. What is transformed is a group of rows.
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

/// The case with a kernel of three rows, and of strides that fit.
fn three_rows(mut case: Case, input: [usize; 3], kernel: [usize; 3]) -> Case {
    let shape = &mut case.shape;
    (shape.input, shape.kernel, shape.stride) = (input, kernel, [1; 3]);
    shape.dilation[1] = 1;
    case
}

fn cases_of_three_rows() -> impl Strategy<Value = Case> {
    (cases(), (1usize..=4, 1usize..=13, 1usize..=20), 1usize..=3, 1usize..=4).prop_map(
        |(case, (depth, height, width), deep, wide)| three_rows(case, [depth, height, width], [deep, 3, wide]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_shape_agrees_with_plain_loops(case in cases_of_three_rows()) {
        check_case(&case);
    }
}

#[test]
fn every_height() {
    for height in 1..=13 {
        for (index, padding) in [[0, 0], [1, 1], [0, 2], [3, 1], [4, 0]].into_iter().enumerate() {
            let is_left_out = is_under_valgrind() && (height + index) % 3 > 0; // each height and each padding is met
            if height + padding[0] + padding[1] < 3 || is_left_out {
                continue;
            }
            let mut shape = ConvShape { input: [2, height, 5], ..cube([3, 5], 1, 3, 1, 1) };
            shape.padding[1] = padding;
            let (prologue, residual) = (Some(Activation::Silu), ResidualKind::InPlace);
            check_case(&Case { shape, prologue, bias: true, residual, seed: 3 });
        }
    }
}

#[test]
fn shapes_of_models() {
    let shapes = [
        cube([16, 16], 9, 3, 1, 1),
        // Output channels in the lanes, and weights in parts.
        ConvShape { input: [3, 8, 7], ..cube([70, 33], 1, 3, 1, 1) },
        ConvShape { input: [5, 5, 4], ..cube([260, 32], 1, 3, 1, 1) },
        // Tiles of columns, and of rows.
        ConvShape { input: [1, 5, 140], kernel: [1, 3, 3], ..cube([300, 2], 1, 3, 1, 1) },
        ConvShape { input: [3, 41, 20], ..cube([24, 2], 1, 3, 1, 1) },
        ConvShape { groups: 3, kernel: [1, 3, 1], ..cube([24, 12], 8, 3, 1, 1) },
    ];
    for shape in shapes {
        for forward in [true, false] {
            for arch in simd::available() {
                let prologue = Some(Activation::Silu);
                let residual = ResidualKind::Of;
                compare::<f32>(&Case { shape, prologue, bias: true, residual, seed: 2 }, forward, 2e-7, arch);
            }
        }
    }
}

#[test]
fn the_last_tile_is_smaller() {
    let shapes = [
        // Output channels in the lanes, columns divided; and groups of rows.
        ConvShape { input: [3, 3, 60], kernel: [3, 3, 1], ..cube([260, 32], 1, 3, 1, 0) },
        ConvShape { input: [2, 21, 9], ..cube([48, 32], 1, 3, 1, 1) },
    ];
    for shape in shapes {
        compare::<f32>(&Case::plain(shape), true, 2e-7, simd::best());
    }
}

#[test]
fn a_stride_along_the_depth_fits_the_forward_pass() {
    let mut shape = cube([4, 6], 9, 3, 1, 1);
    shape.stride[0] = 2;
    assert!(fits(&gather(&shape, true)) && !fits(&gather(&shape, false)));
    simd::available().into_iter().for_each(|arch| compare::<f32>(&Case::plain(shape), true, 2e-7, arch));
}

#[test]
fn what_does_not_fit() {
    let plain = cube([16, 16], 16, 3, 1, 1);
    assert!(pays(&gather(&plain, true)) && pays(&gather(&plain, false)));
    let others = [
        ConvShape { stride: [1, 2, 1], ..plain },
        ConvShape { stride: [1, 1, 2], ..plain },
        ConvShape { dilation: [1, 2, 1], ..plain },
        ConvShape { kernel: [3, 2, 3], ..plain },
        ConvShape { kernel: [3, 4, 3], ..plain },
    ];
    for shape in others {
        assert!(!fits(&gather(&shape, true)) && !fits(&gather(&shape, false)), "{shape:?}");
    }
    let direct = [
        cube([1, 32], 16, 3, 1, 1),
        cube([32, 1], 16, 3, 1, 1),
        cube([512, 512], 4, 3, 1, 1),
        ConvShape { input: [32, 2, 32], ..plain },
        ConvShape { kernel: [1, 3, 1], ..plain },
    ];
    for shape in direct {
        assert!(fits(&gather(&shape, true)) && !pays(&gather(&shape, true)), "{shape:?}");
    }
}

/// Relative L2 error.
fn error(case: &Case, forward: bool) -> f64 {
    let run = |s: &_, i: Input<'_, f32>, w: &_, o: Output<'_, f32>| transformed(simd::best(), forward, s, i, w, o);
    let (exact, found) = exact_and_found::<f32>(case, forward, &run);
    let square = |value: f64| value * value;
    let wrong: f64 = exact.iter().zip(&found).map(|(exact, found)| square(f64::from(*found) - exact.value)).sum();
    (wrong / exact.iter().map(|exact| square(exact.value)).sum::<f64>()).sqrt()
}

#[test]
fn the_sums_stay_exact() {
    let case = Case::plain(cube([64, 8], 12, 3, 1, 1));
    for forward in [true, false] {
        let error = error(&case, forward);
        assert!(error < 1e-6, "{error}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    for channels in [[9, 7], [50, 40]] {
        let shape = ConvShape { batch_size: 2, input: [9, 13, 11], ..cube(channels, 1, 3, 1, 1) };
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

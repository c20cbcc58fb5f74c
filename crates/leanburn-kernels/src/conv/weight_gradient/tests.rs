//! Gradients of weights against plain loops.

use half::{bf16, f16};
use proptest::prelude::*;
use pulp::Arch;

use super::lanes::Lanes;
use super::plan::WeightPlan;
use super::run::{On, in_tiles, items_at_once, with_lanes};
use crate::buffer::is_under_valgrind;
use crate::conv::entry::weight_gradient;
use crate::conv::matrix;
use crate::conv::operands::{Input, Prologue};
use crate::conv::reference::{cube, exact_input, for_each_product, random, random_elements};
use crate::conv::shape::ConvShape;
use crate::tile_products::Unit;
use crate::{Activation, Stored, simd};

/// A kernel on given volumes.
type Kernel<'r, E> = &'r dyn Fn(Input<'_, E>, Input<'_, E>, &mut [f32]);

/// Every instruction set with all lanes.
fn every_kernel(shape: &ConvShape) -> impl Iterator<Item = (Arch, Lanes)> {
    let lanes = Lanes::all_of(shape);
    simd::available().into_iter().flat_map(move |arch| lanes.clone().into_iter().map(move |lanes| (arch, lanes)))
}

/// Compares with the definition for every instruction set, by the relative error of the whole weight.
fn compare<E: Stored>(shape: &ConvShape, activations: [Option<Activation>; 2], seed: u64) {
    for (arch, lanes) in every_kernel(shape) {
        compare_with::<E>(shape, activations, seed, 1e-5, &|input, gradient, target| {
            with_lanes(arch, lanes, On::Threads, shape, input, gradient, target);
        });
    }
}

/// Compares one kernel with the definition, by the relative error of the whole weight.
fn compare_with<E: Stored>(
    shape: &ConvShape,
    activations: [Option<Activation>; 2],
    seed: u64,
    tolerance: f64,
    run: Kernel<'_, E>,
) {
    let rows = [shape.channels_in, shape.channels_out].map(|channels| shape.batch_size * channels);
    let lens = [shape.input_len(), shape.output_len()];
    let values: [Vec<E>; 2] = std::array::from_fn(|of| random_elements(lens[of], seed ^ of as u64));
    let [scale, shift] = [2, 3].map(|of| random(rows[0].max(rows[1]), seed ^ of));
    let [input, gradient] = std::array::from_fn(|of| {
        let (scale, shift) = (&scale[..rows[of]], &shift[..rows[of]]);
        Input {
            values: &values[of][..],
            prologue: activations[of].map(|activation| Prologue { scale, shift, activation }),
        }
    });
    let [exact_input, exact_gradient] =
        [(input, 0), (gradient, 1)].map(|(input, of)| exact_input(&input, (lens[of] / rows[of]).max(1)));
    let mut found = vec![f32::NAN; shape.weight_len()];
    run(input, gradient, &mut found);
    if is_under_valgrind() {
        assert!(found.iter().all(|found| found.is_finite()), "{shape:?}"); // reads all that is written
        return;
    }
    let mut exact = vec![0.0; shape.weight_len()];
    for_each_product(shape, |output, weight, input| {
        exact[weight] += exact_gradient[output].value * exact_input[input].value;
    });
    let error: f64 = found.iter().zip(&exact).map(|(found, exact)| (f64::from(*found) - exact).powi(2)).sum();
    let size: f64 = exact.iter().map(|exact| exact * exact).sum();
    let relative = (error / size).sqrt();
    assert!(error.sqrt() <= tolerance * size.sqrt() + 1e-30, "{shape:?} {relative}");
}

/// Compares products of tiles, by the relative error of the whole weight: what a prologue makes is rounded.
fn compare_tiles(shape: &ConvShape, activations: [Option<Activation>; 2], seed: u64) {
    for unit in Unit::available() {
        let tolerance = if activations == [None; 2] { 1e-5 } else { 4e-3 };
        compare_with::<bf16>(shape, activations, seed, tolerance, &|input, gradient, target| {
            in_tiles(unit, simd::best(), On::Threads, shape, input, gradient, target);
        });
    }
}

/// Compares for every element and with and without a prologue.
fn compare_all(shape: &ConvShape) {
    compare::<f32>(shape, [None, None], 1);
    compare::<f32>(shape, [Some(Activation::Silu), Some(Activation::LeakyRelu(0.1))], 2);
    compare::<bf16>(shape, [Some(Activation::Relu), None], 3);
    compare::<f16>(shape, [None, Some(Activation::None)], 4);
    compare_tiles(shape, [None, None], 5);
    compare_tiles(shape, [Some(Activation::Relu), Some(Activation::Silu)], 6);
}

/// Small shapes of every kind.
fn shapes() -> impl Strategy<Value = ConvShape> {
    let axis = || (1usize..=12, 1usize..=5, 1usize..=3, 1usize..=2, [0usize..=3, 0usize..=3]);
    let shape = (1usize..=2, 1usize..=20, 1usize..=20, 1usize..=3, [axis(), axis(), axis()]).prop_map(
        |(batch_size, channels_in, channels_out, groups, axes)| ConvShape {
            batch_size,
            channels_in: channels_in.next_multiple_of(groups),
            channels_out: channels_out.next_multiple_of(groups),
            groups,
            input: axes.each_ref().map(|axis| axis.0),
            kernel: axes.each_ref().map(|axis| axis.1),
            stride: axes.each_ref().map(|axis| axis.2),
            dilation: axes.each_ref().map(|axis| axis.3),
            padding: axes.map(|axis| axis.4),
        },
    );
    let work = |shape: &ConvShape| shape.weight_len() * shape.output_len() / shape.channels_out;
    shape.prop_filter("too much work", move |shape| work(shape) < 1_000_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_shape_agrees_with_the_definition(
        shape in shapes(),
        seed in any::<u64>(),
        prologue in any::<bool>(),
        element in 0..4,
    ) {
        let activations = [prologue.then_some(Activation::Silu), None];
        match element {
            0 => compare::<f32>(&shape, activations, seed),
            1 => compare::<bf16>(&shape, activations, seed),
            2 => compare_tiles(&shape, activations, seed),
            _ => compare::<f16>(&shape, activations, seed),
        }
    }
}

#[test]
fn usual_layers() {
    for shape in [
        cube([1, 8], 9, 3, 1, 1),
        cube([8, 1], 9, 3, 1, 1),
        cube([6, 5], 7, 1, 1, 0),
        cube([3, 4], 10, 4, 2, 1),
        cube([3, 4], 9, 3, 2, 1),
        cube([4, 3], 8, 2, 2, 0),
        ConvShape { stride: [1, 2, 2], ..cube([3, 4], 9, 3, 2, 1) },
        ConvShape { groups: 3, batch_size: 2, ..cube([6, 9], 6, 3, 1, 1) },
    ] {
        compare_all(&shape);
    }
}

#[test]
fn more_channels_than_a_block() {
    compare_all(&cube([40, 70], 3, 3, 1, 1));
    compare_all(&cube([70, 40], 2, 3, 1, 1));
    compare_all(&ConvShape { input: [2, 3, 4], ..cube([130, 70], 4, 1, 1, 0) });
    compare_all(&ConvShape { groups: 2, ..cube([80, 140], 2, 2, 1, 0) });
}

#[test]
fn more_rows_than_a_tile_and_more_depth_than_a_march() {
    compare_all(&ConvShape { input: [3, 40, 33], ..cube([2, 3], 1, 3, 1, 1) });
    compare_all(&ConvShape { input: [30, 5, 4], batch_size: 2, ..cube([2, 3], 1, 3, 1, 1) });
    compare_all(&ConvShape { input: [2, 3, 1100], ..cube([2, 1], 1, 1, 1, 0) });
    compare_all(&ConvShape { input: [2, 3, 1100], ..cube([1, 2], 1, 3, 2, 1) });
}

#[test]
fn parts_add_up() {
    let shape = ConvShape { input: [20, 40, 40], batch_size: 2, ..cube([6, 5], 1, 3, 1, 1) };
    for lanes in Lanes::all_of(&shape) {
        assert!(WeightPlan::new(&shape, lanes).parts > 1);
    }
    compare::<f32>(&shape, [None, None], 5);
    compare_tiles(&ConvShape { input: [20, 60, 60], ..shape }, [None, None], 5);
}

/// Sums of one sign are the worst: nothing cancels, and the sum grows beyond what is added to it.
#[test]
fn sums_over_many_positions_stay_exact() {
    for depth in [1, 3, 4] {
        let shape = ConvShape { input: [40, 96, 96], kernel: [depth, 1, 1], ..cube([1, 1], 1, 1, 1, 0) };
        let [input, gradient] = [(1, shape.input_len()), (2, shape.output_len())]
            .map(|(seed, len)| random(len, seed).into_iter().map(f32::abs).collect::<Vec<_>>());
        let product = |(x, y): (&f32, &f32)| f64::from(*x) * f64::from(*y);
        let exact = |plane| input[plane * 96 * 96..].iter().zip(&gradient).map(product).sum::<f64>();
        for (arch, lanes) in every_kernel(&shape) {
            let mut found = vec![f32::NAN; depth];
            with_lanes(arch, lanes, On::Threads, &shape, Input::plain(&input), Input::plain(&gradient), &mut found);
            let most = if lanes == Lanes::Transformed { 4e-6 } else { 1e-6 };
            for (plane, found) in found.into_iter().enumerate() {
                let error = f64::from(found) / exact(plane) - 1.0;
                assert!(error.abs() < most, "{arch:?} {lanes:?} {depth} {plane} {error}");
            }
        }
    }
}

/// Whole and partial groups of planes, steps of one and of several groups, and planes outside of the volume.
#[test]
fn transformed_planes_of_every_depth() {
    for (depth, kernel) in (1..=9).flat_map(|depth| [(depth, 3), (depth, 4)]) {
        for padding in [[0, 0], [1, 1], [0, 2], [3, 1], [4, 0]] {
            if depth + padding[0] + padding[1] >= kernel {
                let mut shape = ConvShape { kernel: [kernel, 3, 2], stride: [1, 2, 1], ..cube([3, 5], 5, 3, 1, 1) };
                (shape.input[0], shape.padding[0]) = (depth, padding);
                compare::<f32>(&shape, [Some(Activation::Silu), None], 3);
            }
        }
    }
    let shape = ConvShape { input: [26, 16, 16], ..cube([3, 2], 1, 3, 1, 1) };
    assert_eq!(WeightPlan::new(&shape, Lanes::Transformed).planes, 12);
    compare::<f32>(&shape, [Some(Activation::Silu), None], 4);
}

/// Those of either sign.
#[test]
fn the_sums_stay_exact_where_planes_are_transformed() {
    for kernel in [3, 4] {
        let shape = cube([8, 8], 16, kernel, 1, 1);
        for arch in simd::available() {
            compare_with::<f32>(&shape, [None, None], 1, 1e-6, &|input, gradient, target| {
                with_lanes(arch, Lanes::Transformed, On::Threads, &shape, input, gradient, target);
            });
        }
    }
}

/// Blocks of different sizes, and marches with different rows outside, in the scratch of one another.
#[test]
fn a_task_leaves_nothing_behind_for_the_next() {
    compare::<f32>(&ConvShape { input: [2, 60, 20], ..cube([67, 33], 1, 3, 1, 1) }, [None, None], 7);
    compare::<f32>(&ConvShape { input: [2, 120, 20], ..cube([67, 33], 1, 3, 2, 1) }, [None, None], 8);
    compare_tiles(&ConvShape { input: [2, 60, 20], ..cube([67, 33], 1, 3, 1, 1) }, [None, None], 7);
    compare_tiles(&ConvShape { input: [2, 120, 20], ..cube([67, 33], 1, 3, 2, 1) }, [None, None], 8);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let shape = ConvShape { input: [20, 40, 40], batch_size: 2, ..cube([6, 5], 1, 3, 1, 1) };
    let [input, gradient] = [shape.input_len(), shape.output_len()].map(|len| random(len, 6));
    let threads: &[usize] = if is_under_valgrind() { &[3] } else { &[1, 2, 3, 7] };
    let results = threads.iter().map(|&threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        Lanes::all_of(&shape)
            .into_iter()
            .map(|lanes| {
                let mut target = vec![f32::NAN; shape.weight_len()];
                let (input, gradient) = (Input::plain(&input[..]), Input::plain(&gradient[..]));
                pool.install(|| with_lanes(simd::best(), lanes, On::Threads, &shape, input, gradient, &mut target));
                target
            })
            .collect::<Vec<_>>()
    });
    let results: Vec<_> = results.collect();
    results.iter().for_each(|result| assert!(*result == results[0]));
}

/// Several at once, one at a time, and some of both.
#[test]
fn a_batch_is_the_sum_of_its_items_whatever_the_number_of_threads() {
    let shape = ConvShape { input: [4, 9, 8], batch_size: 5, ..cube([6, 5], 1, 3, 1, 1) };
    let [input, gradient] = [shape.input_len(), shape.output_len()].map(|len| random(len, 6));
    let gradient_of = |shape: &ConvShape, input: &[f32], gradient: &[f32]| {
        let mut target = vec![f32::NAN; shape.weight_len()];
        weight_gradient(shape, Input::plain(input), Input::plain(gradient), &mut target);
        target
    };
    let one = ConvShape { batch_size: 1, ..shape };
    let mut sums = vec![0.0f64; shape.weight_len()];
    for (input, gradient) in input.chunks(one.input_len()).zip(gradient.chunks(one.output_len())) {
        sums.iter_mut().zip(gradient_of(&one, input, gradient)).for_each(|(sum, value)| *sum += f64::from(value));
    }
    let expected: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
    let threads: &[usize] = if is_under_valgrind() { &[2] } else { &[1, 2, 3, 5, 7] };
    for &threads in threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| {
            assert_eq!(items_at_once(&shape), if threads > 5 { 1 } else { threads });
            gradient_of(&shape, &input, &gradient)
        });
        assert_eq!(found, expected, "{threads} threads");
    }
}

#[test]
fn an_empty_output_gives_zeros() {
    for shape in
        [cube([2, 3], 2, 3, 1, 0), ConvShape { batch_size: 0, ..cube([2, 3], 4, 3, 1, 1) }, cube([2, 3], 0, 1, 1, 0)]
    {
        let (input, mut target) = (vec![1.0; shape.input_len()], vec![f32::NAN; shape.weight_len()]);
        weight_gradient::<f32>(&shape, Input::plain(&input), Input::plain(&[]), &mut target);
        assert_eq!(target, vec![0.0; shape.weight_len()]);
    }
}

#[test]
#[should_panic(expected = "the target is not of the length that the shape says")]
fn a_target_of_wrong_length_is_rejected() {
    let input = Input::plain(&[0.0]);
    weight_gradient(&cube([1, 1], 1, 1, 1, 0), input, input, &mut [0.0; 2]);
}

#[test]
fn dot_products_are_taken_where_they_were_faster() {
    let pays = |shape| matrix::weight_gradient::pays(Unit::DotProducts, &shape);
    assert!(
        pays(cube([32, 32], 64, 3, 1, 1)) && pays(cube([128, 128], 6, 3, 1, 1)) && pays(cube([64, 64], 24, 3, 2, 1))
    );
    // Few channels, few positions, short strided rows, and columns that are not there.
    for shape in [
        cube([16, 16], 48, 3, 1, 1),
        cube([64, 64], 8, 3, 1, 1),
        cube([128, 128], 16, 3, 2, 1),
        cube([40, 40], 24, 3, 1, 1),
        cube([256, 256], 6, 1, 1, 0),
    ] {
        assert!(!pays(shape), "{shape:?}");
    }
}

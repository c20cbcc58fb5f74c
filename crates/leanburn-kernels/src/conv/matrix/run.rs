//! Whether tiles pay, and the run over all tasks.

use half::bf16;
use pulp::Arch;

use super::pass::{Pass, Scratch, ScratchLens};
use super::tiling::Tiling;
use super::weights::{BLOCK, TileWeights};
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::Gather;
use crate::conv::operands::Input;
use crate::conv::packing::planes::Source;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::tasks::Tasks;
use crate::parallel::{for_each_with, threads};
use crate::size::product;
use crate::tile_products::{ROWS, TERMS, Tiles, Unit};

/// Products of float32 that the other engines compute while AMX computes a step of a tile, about.
const WORTH_OF_AMX: usize = 2500;

/// Fewest pairs of an input and an output channel for which dot products pay: of fewer, packing takes longer.
const LEAST_PAIRS: usize = 128;

/// Fewest positions of the output for which packed weights pay.
const LEAST_POSITIONS: usize = 64;

/// Whether that is faster than float32. Depends on the shape only.
pub(crate) fn pays(unit: Unit, gather: &Gather) -> bool {
    let [inputs, outputs] = gather.channels;
    let positions: usize = gather.axes.iter().map(|axis| axis.output).product();
    let (blocks, pairs) = (inputs.div_ceil(TERMS), inputs * outputs);
    let pays = match unit {
        // Three of four products are wanted, or more.
        Unit::DotProducts => {
            let computed = blocks * unit.terms(inputs) * outputs.next_multiple_of(ROWS / 2);
            pairs >= LEAST_PAIRS && 4 * pairs >= 3 * computed
        }
        Unit::Amx => pairs * ROWS >= blocks * outputs.div_ceil(ROWS) * WORTH_OF_AMX,
    };
    pays && positions >= LEAST_POSITIONS
}

/// Computes the whole output.
pub(crate) fn run(
    unit: Unit,
    gather: &Gather,
    arch: Arch,
    input: Input<'_, bf16>,
    weight: &[f32],
    output: SharedOutput<'_, bf16>,
) {
    if output.len == 0 {
        return;
    }
    let weights = TileWeights::new(unit, gather, arch, weight);
    let size = gather.axes.each_ref().map(|axis| axis.input);
    let source = Source { input, channels: gather.groups * gather.channels[0], size };
    let tiling = Tiling::new(unit, gather);
    let (tasks, lens) = (tasks(gather, &tiling), ScratchLens::of(gather, &tiling));
    let pass = Pass { arch, gather, source, weights, tiling, output };
    let new = || (Tiles::new(unit), Scratch::new(&lens));
    let run = |(tiles, scratch): &mut (Tiles, Scratch), task: usize| pass.task(tiles, scratch, tasks.place(task));
    for_each_with(tasks.len(), multiplications(gather), new, run);
}

/// Bytes that [`run`] takes at most, in the current pool.
pub(crate) fn workspace(unit: Unit, gather: &Gather) -> usize {
    let tiling = Tiling::new(unit, gather);
    let threads = threads(tasks(gather, &tiling).len(), multiplications(gather));
    TileWeights::unfilled(unit, gather).bytes(gather.groups)
        + product(&[threads, ScratchLens::of(gather, &tiling).bytes()])
}

fn tasks(gather: &Gather, tiling: &Tiling) -> Tasks {
    let [_, rows, columns] = gather.axes.each_ref().map(Axis::indices);
    Tasks::of(gather, tiling.counts(gather), [rows, columns], tiling.tile)
}

/// Multiplications, with those by zero that fill up tiles.
fn multiplications(gather: &Gather) -> usize {
    let positions: usize = gather.axes.iter().map(|axis| axis.output).product();
    let elements: usize = gather.axes.iter().map(|axis| axis.kernel).product();
    let [inputs, outputs] = gather.channels;
    product(&[
        gather.batch_size,
        positions,
        gather.groups,
        inputs.next_multiple_of(TERMS),
        outputs.next_multiple_of(BLOCK),
        elements,
    ])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conv::data_gradient::data_gradient_on;
    use crate::conv::forward::forward_on;
    use crate::conv::operands::Output;
    use crate::conv::reference::{Case, ResidualKind, cases, compare_rounded, cube, random, random_elements};
    use crate::conv::shape::ConvShape;
    use crate::{Activation, simd};

    /// Both passes of a case in tiles, whether they pay or not.
    fn check_case(case: &Case) {
        for unit in Unit::available() {
            compare_rounded::<bf16>(case, true, 0.00391, &|shape, input, weight, output| {
                run(unit, &Gather::forward(shape), simd::best(), input, weight, output.into());
            });
            compare_rounded::<bf16>(case, false, 0.00391, &|shape, input, weight, output| {
                run(unit, &Gather::data_gradient(shape), simd::best(), input, weight, output.into());
            });
        }
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
            cube([32, 32], 9, 3, 1, 1),
            cube([33, 48], 6, 3, 1, 1),
            cube([70, 20], 7, 1, 1, 0),
            cube([24, 40], 12, 4, 2, 1),
            cube([40, 24], 13, 3, 2, 1),
            ConvShape { stride: [1, 2, 2], ..cube([20, 34], 11, 3, 1, 1) },
            ConvShape { input: [3, 2, 150], ..cube([32, 40], 1, 3, 1, 1) },
            ConvShape { input: [2, 90, 40], ..cube([32, 32], 1, 3, 1, 1) },
            ConvShape { groups: 2, batch_size: 2, ..cube([66, 36], 5, 3, 1, 1) },
            // Rows of whole sixteens: one, two, three (an odd number in all), and of strides.
            ConvShape { input: [2, 5, 16], ..cube([18, 34], 1, 3, 1, 1) },
            ConvShape { input: [2, 3, 32], ..cube([48, 16], 1, 3, 1, 1) },
            ConvShape { input: [1, 3, 48], ..cube([32, 24], 1, 3, 1, 1) },
            ConvShape { input: [3, 6, 32], ..cube([20, 32], 1, 4, 2, 1) },
            // More columns than a tile has.
            ConvShape { input: [1, 1, 1100], ..cube([32, 32], 1, 3, 1, 1) },
            ConvShape { input: [1, 1, 1100], ..cube([32, 32], 1, 1, 1, 0) },
        ];
        for shape in shapes {
            check_case(&Case::plain(shape));
            for (residual, activation) in
                [(ResidualKind::Of, Activation::Silu), (ResidualKind::InPlace, Activation::Relu)]
            {
                check_case(&Case { shape, prologue: Some(activation), bias: true, residual, seed: 2 });
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let shape = ConvShape { batch_size: 2, ..cube([40, 24], 13, 3, 1, 1) };
        let (input, weight) = (random_elements::<bf16>(shape.input_len(), 1), random(shape.weight_len(), 2));
        for unit in Unit::available() {
            let on = |threads| {
                let mut output = vec![bf16::NAN; shape.output_len()];
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let gather = Gather::forward(&shape);
                pool.install(|| {
                    run(unit, &gather, simd::best(), Input::plain(&input), &weight, Output::plain(&mut output).into());
                });
                output
            };
            let one = on(1);
            assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one), "{unit:?}");
        }
    }

    /// What is computed of an item must not depend on how many others there are.
    #[test]
    fn whether_tiles_pay_does_not_depend_on_the_batch() {
        let shape = cube([32, 32], 8, 3, 1, 1);
        for unit in [Unit::DotProducts, Unit::Amx] {
            let of = |batch_size| pays(unit, &Gather::forward(&ConvShape { batch_size, ..shape }));
            assert!(of(1) && of(5), "{unit:?}");
            assert!(!pays(unit, &Gather::forward(&cube([1, 32], 8, 3, 1, 1))), "{unit:?}");
        }
    }

    #[test]
    fn nearly_the_sums_of_float32() {
        let shape = cube([64, 64], 12, 3, 1, 1);
        let (input, gradient) =
            (random_elements::<bf16>(shape.input_len(), 1), random_elements::<bf16>(shape.output_len(), 3));
        let weight: Vec<f32> = random_elements::<bf16>(shape.weight_len(), 2).into_iter().map(f32::from).collect();
        let mut results = [vec![bf16::NAN; shape.output_len()], vec![bf16::NAN; shape.output_len()]];
        let [tiles, plain] = &mut results;
        forward_on(simd::best(), &shape, Input::plain(&input), &weight, Output::plain(plain).into());
        crate::conv::forward(&shape, Input::plain(&input), &weight, Output::plain(tiles));
        let differ = |[tiles, plain]: &[Vec<bf16>; 2]| {
            let difference = tiles.iter().zip(plain).map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2)).sum::<f64>();
            (difference / plain.iter().map(|b| b.to_f64().powi(2)).sum::<f64>()).sqrt()
        };
        assert!(differ(&results) < 1e-3, "{}", differ(&results));
        let [tiles, plain] = &mut results;
        data_gradient_on(simd::best(), &shape, Input::plain(&gradient), &weight, Output::plain(plain).into());
        crate::conv::data_gradient(&shape, Input::plain(&gradient), &weight, Output::plain(tiles));
        assert!(differ(&results) < 1e-3, "{}", differ(&results));
    }
}

//! Resampling against its definition in float64 and against PyTorch, on every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::planes::resample_on;
use super::resample;
use super::width::WidthMap;
use crate::ShapeError;
use crate::axis_map::AxisMap;
use crate::{Stored, simd};

/// Any map between lengths of up to `longest`.
pub(crate) fn axis_map(longest: usize) -> impl Strategy<Value = AxisMap> {
    let sizes = (1..=longest, 1..=longest, 1usize..6, 1usize..5, 0usize..4, 0usize..4);
    (sizes, 0..8, any::<[bool; 3]>()).prop_map(|((from, to, kernel, stride, before, after), kind, flags)| {
        let kernel = kernel.min(from);
        let padding = [before.min(kernel / 2), after.min(kernel / 2)];
        let map = match kind {
            0 => AxisMap::identity(from),
            1 => AxisMap::nearest(from, to).unwrap(),
            2 => AxisMap::linear(from, to, flags[0]).unwrap(),
            3 => AxisMap::adaptive_average(from, to).unwrap(),
            // Ratios that become vector code.
            4 => AxisMap::linear(from, 2 * from, flags[0]).unwrap(),
            5 => AxisMap::nearest(from, 2 * from).unwrap(),
            _ => AxisMap::average(from, kernel, stride, padding, flags[0], flags[1]).unwrap(),
        };
        if flags[2] { map.transpose() } else { map }
    })
}

/// Values that do not cancel.
fn random<E: Stored>(len: usize, seed: u64) -> Vec<E> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| E::from_f32(rng.random_range(-0.25..1.0))).collect()
}

/// The definition, in float64.
fn reference<E: Stored>(items: usize, maps: [&AxisMap; 3], input: &[E]) -> Vec<f64> {
    let values = input.iter().map(|value| f64::from(value.to_f32())).collect();
    let along = |axis: usize, [outer, inner]: [usize; 2], input: Vec<f64>| {
        let (from, to, dense) = (maps[axis].input_len(), maps[axis].output_len(), maps[axis].dense());
        let mut output = vec![0.0; outer * to * inner];
        for (o, t, f, i) in (0..outer)
            .flat_map(|o| (0..to).flat_map(move |t| (0..from).flat_map(move |f| (0..inner).map(move |i| (o, t, f, i)))))
        {
            output[(o * to + t) * inner + i] += f64::from(dense[t * from + f]) * input[(o * from + f) * inner + i];
        }
        output
    };
    let [from, to] = [maps.map(AxisMap::input_len), maps.map(AxisMap::output_len)];
    let values = along(0, [items, from[1] * from[2]], values);
    let values = along(1, [items * to[0], from[2]], values);
    along(2, [items * to[0] * to[1], 1], values)
}

fn relative_error<E: Stored>(values: &[E], exact: &[f64]) -> f64 {
    let difference = values.iter().zip(exact).map(|(value, exact)| (f64::from(value.to_f32()) - exact).powi(2));
    let norm = exact.iter().map(|exact| exact * exact).sum::<f64>();
    if norm == 0.0 { difference.sum() } else { (difference.sum::<f64>() / norm).sqrt() }
}

fn lengths(items: usize, maps: [&AxisMap; 3]) -> [usize; 2] {
    [
        items * maps.map(AxisMap::input_len).iter().product::<usize>(),
        items * maps.map(AxisMap::output_len).iter().product::<usize>(),
    ]
}

/// The result on each instruction set, which agrees with the definition.
#[track_caller]
fn check<E: Stored>(items: usize, maps: [&AxisMap; 3], tolerance: f64) {
    let [from, to] = lengths(items, maps);
    let input = random::<E>(from, 1);
    let exact = reference(items, maps, &input);
    for arch in simd::available() {
        let mut output = vec![E::from_f32(f32::NAN); to];
        resample_on(arch, items, maps, &input, &mut output);
        let error = relative_error(&output, &exact);
        let lengths = maps.map(|map| (map.input_len(), map.output_len()));
        assert!(error <= tolerance, "{arch:?} {error:e} {lengths:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_the_definition(
        items in 1usize..4,
        depth in axis_map(6),
        height in axis_map(9),
        width in axis_map(150),
    ) {
        check::<f32>(items, [&depth, &height, &width], 1e-6);
    }

    #[test]
    fn agrees_with_the_definition_in_half_precision(depth in axis_map(6), height in axis_map(9), width in axis_map(40)) {
        check::<f16>(1, [&depth, &height, &width], 5e-4);
        check::<bf16>(1, [&depth, &height, &width], 4e-3);
    }

    #[test]
    fn the_transposed_maps_are_the_adjoint(depth in axis_map(8), height in axis_map(8), width in axis_map(40)) {
        let maps = [&depth, &height, &width];
        let transposed = maps.map(AxisMap::transpose);
        let [from, to] = lengths(2, maps);
        let (x, y) = (random::<f32>(from, 2), random::<f32>(to, 3));
        let (mut ax, mut aty) = (vec![0.0; to], vec![0.0; from]);
        resample(2, maps, &x, &mut ax);
        resample(2, transposed.each_ref(), &y, &mut aty);
        let inner = |left: &[f32], right: &[f32]| -> f64 {
            left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
        };
        let (left, right) = (inner(&ax, &y), inner(&x, &aty));
        let scale = inner(&ax, &ax).sqrt() * inner(&y, &y).sqrt();
        prop_assert!((left - right).abs() <= 1e-6 * scale, "{left} {right} {scale}");
    }
}

#[test]
fn widths_that_repeat_are_right_at_every_length() -> Result<(), ShapeError> {
    let keep = AxisMap::identity(1);
    for from in (1..40).chain([63, 64, 65, 129]) {
        let mut maps = vec![AxisMap::nearest(from, 2 * from)?, AxisMap::linear(from, 2 * from, false)?];
        for kernel in 1..=4.min(from) {
            for stride in 1..=3 {
                maps.push(AxisMap::average(from, kernel, stride, [kernel / 2, 0], true, true)?);
            }
        }
        for map in maps {
            check::<f32>(3, [&keep, &keep, &map], 1e-6);
            check::<f32>(3, [&keep, &keep, &map.transpose()], 1e-6);
        }
    }
    Ok(())
}

#[test]
fn common_ratios_become_vector_code() -> Result<(), ShapeError> {
    let covered = |map: &AxisMap| match WidthMap::new(map).repeats() {
        Some(outputs) => outputs.len() + 4 >= map.output_len(),
        None => false,
    };
    for map in [
        AxisMap::nearest(64, 128)?,
        AxisMap::nearest(128, 64)?,
        AxisMap::linear(64, 128, false)?,
        AxisMap::average(128, 2, 2, [0, 0], true, false)?,
        AxisMap::average(128, 3, 1, [1, 1], false, false)?,
        AxisMap::average(128, 3, 2, [1, 1], false, false)?,
    ] {
        assert!(covered(&map), "{map:?}");
    }
    for map in [AxisMap::nearest(64, 128)?, AxisMap::linear(64, 128, false)?, AxisMap::nearest(128, 64)?] {
        let transposed = map.transpose();
        assert!(covered(&transposed) || transposed.longest_run() == 1, "{transposed:?}");
    }
    assert!(!covered(&AxisMap::linear(64, 128, true)?));
    Ok(())
}

#[test]
fn long_sums_stay_exact() -> Result<(), ShapeError> {
    let (keep, all) = (AxisMap::identity(1), AxisMap::average(5000, 5000, 1, [0, 0], true, false)?);
    let some = AxisMap::average(20, 20, 1, [0, 0], true, false)?;
    for maps in [[&all, &keep, &keep], [&keep, &all, &keep], [&keep, &keep, &all], [&some; 3]] {
        check::<f32>(2, maps, 4e-7);
        check::<bf16>(2, maps, 4e-3);
        check::<f16>(2, maps, 5e-4);
    }
    Ok(())
}

#[test]
fn an_infinity_stays_in_its_outputs() -> Result<(), ShapeError> {
    for map in [
        AxisMap::average(12, 3, 2, [1, 1], true, false)?,
        AxisMap::adaptive_average(12, 5)?,
        AxisMap::linear(12, 24, false)?,
        AxisMap::average(12, 3, 2, [1, 1], true, false)?.transpose(),
    ] {
        for place in 0..map.input_len().pow(3) {
            let mut input = vec![0.0f32; map.input_len().pow(3)];
            input[place] = f32::INFINITY;
            let mut output = vec![0.0; map.output_len().pow(3)];
            resample(1, [&map; 3], &input, &mut output);
            let (from, to, dense) = (map.input_len(), map.output_len(), map.dense());
            let seen = |output: usize, input: usize| dense[output % to * from + input % from] != 0.0;
            for (index, value) in output.iter().enumerate() {
                let seen =
                    seen(index / to / to, place / from / from) && seen(index / to, place / from) && seen(index, place);
                assert_eq!(value.is_finite(), !seen, "{place} {index} {value}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_number_of_threads_changes_no_bit() -> Result<(), ShapeError> {
    let maps = [
        AxisMap::linear(9, 20, true)?,
        AxisMap::average(40, 7, 3, [3, 3], true, false)?,
        AxisMap::linear(50, 71, false)?,
    ];
    let input = random::<f32>(3 * 9 * 40 * 50, 4);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut output = vec![0.0; lengths(3, maps.each_ref())[1]];
        pool.install(|| resample(3, maps.each_ref(), &input, &mut output));
        output.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let one = run(1);
    assert!([2, 3, 7].into_iter().all(|threads| run(threads) == one));
    Ok(())
}

#[track_caller]
fn check_pinned(maps: [&AxisMap; 3], input: &[f32], expected: &[f32]) {
    for arch in simd::available() {
        let mut output = vec![f32::NAN; lengths(1, maps)[1]];
        resample_on(arch, 1, maps, input, &mut output);
        assert_eq!(output.len(), expected.len());
        let close = |(left, right): (&f32, &f32)| (left - right).abs() <= 2e-6 * right.abs().max(1.0);
        assert!(output.iter().zip(expected).all(close), "{arch:?} {output:?}");
    }
}

// x = (torch.arange(12.) ** 2 / 10).reshape(1, 1, 2, 3, 2)
// F.interpolate(x, size=(3, 2, 4), mode=.., align_corners=..)
// F.avg_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True, count_include_pad=..)
// F.adaptive_avg_pool3d(x, (1, 2, 3))
#[test]
#[rustfmt::skip]
fn pytorch_values() -> Result<(), ShapeError> {
    let x: Vec<f32> = (0..12).map(|value| (value * value) as f32 / 10.0).collect();
    let nearest = [AxisMap::nearest(2, 3)?, AxisMap::nearest(3, 2)?, AxisMap::nearest(2, 4)?];
    check_pinned(nearest.each_ref(), &x, &[
        0.0, 0.0, 0.1, 0.1, 0.4, 0.4, 0.9, 0.9, 0.0, 0.0, 0.1, 0.1, 0.4, 0.4, 0.9, 0.9, 3.6, 3.6, 4.9, 4.9, 6.4, 6.4,
        8.1, 8.1,
    ]);
    let linear = |align| -> Result<_, ShapeError> {
        Ok([AxisMap::linear(2, 3, align)?, AxisMap::linear(3, 2, align)?, AxisMap::linear(2, 4, align)?])
    };
    check_pinned(linear(false)?.each_ref(), &x, &[
        0.1, 0.15, 0.25, 0.3, 1.3, 1.5, 1.9, 2.1, 2.2, 2.4, 2.8, 3.0, 5.2, 5.55, 6.25, 6.6, 4.3, 4.65, 5.35, 5.7, 9.1,
        9.6, 10.6, 11.1,
    ]);
    check_pinned(linear(true)?.each_ref(), &x, &[
        0.0, 0.033333, 0.066667, 0.1, 1.6, 1.9, 2.2, 2.5, 1.8, 2.033333, 2.266667, 2.5, 5.8, 6.3, 6.8, 7.3, 3.6,
        4.033333, 4.466667, 4.9, 10.0, 10.7, 11.4, 12.1,
    ]);
    let average = |count| -> Result<_, ShapeError> {
        Ok([
            AxisMap::average(2, 2, 1, [1, 1], count, true)?,
            AxisMap::average(3, 3, 2, [1, 1], count, true)?,
            AxisMap::average(2, 2, 2, [0, 0], count, true)?,
        ])
    };
    check_pinned(average(true)?.each_ref(), &x, &[0.116667, 0.45, 2.033333, 3.5, 1.916667, 3.05]);
    check_pinned(average(false)?.each_ref(), &x, &[0.35, 1.35, 3.05, 5.25, 5.75, 9.15]);
    let adaptive = [(2, 1), (3, 2), (2, 3)].map(|(from, to)| AxisMap::adaptive_average(from, to).unwrap());
    check_pinned(adaptive.each_ref(), &x, &[2.6, 3.05, 3.5, 4.6, 5.25, 5.9]);
    // y = F.interpolate(x, size=(3, 2, 4), mode="trilinear"); y.backward(torch.arange(24.).reshape(y.shape)); x.grad
    let gradient: Vec<f32> = (0..24).map(|value| value as f32).collect();
    check_pinned(linear(false)?.each_ref().map(AxisMap::transpose).each_ref(), &gradient, &[
        7.40625, 11.34375, 7.9375, 10.5625, 16.40625, 20.34375, 31.40625, 35.34375, 23.9375, 26.5625, 40.40625,
        44.34375,
    ]);
    Ok(())
}

#[test]
fn no_items_are_nothing() {
    resample::<f32>(0, [&AxisMap::identity(3); 3], &[], &mut []);
    resample::<f32>(2, [&AxisMap::identity(3), &AxisMap::identity(0), &AxisMap::identity(3)], &[], &mut []);
}

#[test]
#[should_panic(expected = "the input is [items, depth, height, width] of the maps")]
fn a_short_input_panics() {
    resample::<f32>(1, [&AxisMap::identity(2); 3], &[0.0; 7], &mut [0.0; 8]);
}

#[test]
#[should_panic(expected = "the output is [items, depth, height, width] of the maps")]
fn a_long_output_panics() {
    resample::<f32>(1, [&AxisMap::identity(2); 3], &[0.0; 8], &mut [0.0; 9]);
}

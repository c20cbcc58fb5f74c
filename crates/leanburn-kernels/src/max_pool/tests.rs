//! Max pooling against plain loops.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::forward::max_pool_on;
use super::gradient::max_pool_backward_on;
use super::*;
use crate::ShapeError;
use crate::{Stored, simd};

const PLAIN: MaxPoolShape = MaxPoolShape {
    items: 1,
    input: [2, 3, 3],
    kernel: [1; 3],
    stride: [1; 3],
    padding: [0; 3],
    dilation: [1; 3],
    ceil_mode: false,
};

/// The definition, from the shape and not the windows: place and value of the maximum of each window of an item.
fn reference_of_shape(shape: &MaxPoolShape, input: &[f32]) -> Vec<(usize, f32)> {
    let inside = |output: [usize; 3], element: [usize; 3]| -> Option<[usize; 3]> {
        let mut place = [0; 3];
        for axis in 0..3 {
            let padded = output[axis] * shape.stride[axis] + element[axis] * shape.dilation[axis];
            place[axis] = padded.checked_sub(shape.padding[axis]).filter(|place| *place < shape.input[axis])?;
        }
        Some(place)
    };
    every(shape.output())
        .map(|output| largest(shape.input, input, every(shape.kernel).filter_map(|element| inside(output, element))))
        .collect()
}

/// The definition of adaptive pooling.
fn reference_of_adaptive(from: [usize; 3], to: [usize; 3], input: &[f32]) -> Vec<(usize, f32)> {
    let inside = |output: [usize; 3], place: [usize; 3]| {
        (0..3).all(|axis| {
            // floor(o from / to) <= p < ceil((o + 1) from / to)
            (output[axis] * from[axis] / to[axis]) <= place[axis]
                && place[axis] * to[axis] < (output[axis] + 1) * from[axis]
        })
    };
    every(to).map(|output| largest(from, input, every(from).filter(|place| inside(output, *place)))).collect()
}

/// All places in order of depth, height and width.
fn every([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [z, y, x])))
}

/// PyTorch's loop: `if (value > largest || isnan(value))`.
fn largest([_, height, width]: [usize; 3], input: &[f32], places: impl Iterator<Item = [usize; 3]>) -> (usize, f32) {
    let mut best = None;
    for [z, y, x] in places {
        let place = (z * height + y) * width + x;
        let (_, largest) = *best.get_or_insert((place, f32::NEG_INFINITY));
        if input[place] > largest || input[place].is_nan() {
            best = Some((place, input[place]));
        }
    }
    best.unwrap()
}

/// Few different values, so that many are equal; some infinite, some no number.
fn random<E: Stored>(len: usize, seed: u64) -> Vec<E> {
    let mut rng = StdRng::seed_from_u64(seed);
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
    let mut value = || match rng.random_range(0..40) {
        index @ 0..4 => special[index],
        _ => rng.random_range(-8..8) as f32,
    };
    (0..len).map(|_| E::from_f32(value())).collect()
}

fn bits<E: Stored>(values: &[E]) -> Vec<u32> {
    values
        .iter()
        .map(|value| if value.to_f32().is_nan() { u32::MAX } else { (value.to_f32() + 0.0).to_bits() })
        .collect()
}

/// Forward and backward on each instruction set, which agree with the definition exactly: gradients are small integers.
#[track_caller]
fn check<E: Stored>(windows: &PoolWindows, slab: usize, reference: impl Fn(&[f32]) -> Vec<(usize, f32)>) {
    let (volume, pooled) = (windows.input().iter().product::<usize>(), windows.output().iter().product::<usize>());
    let input = random::<E>(windows.items() * volume, 1);
    let gradient: Vec<E> = (0..windows.items() * pooled).map(|index| E::from_f32((index % 7) as f32)).collect();
    let (mut expected, mut expected_gradient) = (Vec::new(), vec![0.0; input.len()]);
    for item in 0..windows.items() {
        let values: Vec<f32> = input[item * volume..][..volume].iter().map(|value| value.to_f32()).collect();
        for (index, (place, value)) in reference(&values).into_iter().enumerate() {
            expected.push(value);
            expected_gradient[item * volume + place] += gradient[item * pooled + index].to_f32();
        }
    }
    for arch in simd::available() {
        let mut output = vec![E::default(); gradient.len()];
        max_pool_on(arch, windows, &input, &mut output);
        assert_eq!(bits(&output), bits(&expected), "{arch:?} {windows:?}");
        let mut input_gradient = vec![E::from_f32(9.0); input.len()];
        max_pool_backward_on(arch, slab, windows, &input, &gradient, &mut input_gradient);
        let expected: Vec<E> = expected_gradient.iter().map(|value| E::from_f32(*value)).collect();
        assert_eq!(bits(&input_gradient), bits(&expected), "{arch:?} {windows:?}");
    }
}

/// Input, kernel, stride, padding and dilation of one axis.
fn axis(longest: usize) -> impl Strategy<Value = [usize; 5]> {
    (1..=longest, 1usize..5, 1usize..4, 0usize..3, 1usize..4).prop_map(|(input, kernel, stride, padding, dilation)| {
        [input, kernel, stride, padding.min(kernel / 2), dilation]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_global_rejects: 100_000, ..Default::default() })]

    #[test]
    fn agrees_with_the_definition(
        items in 1usize..4,
        axes in (axis(6), axis(8), axis(70)),
        ceil_mode in any::<bool>(),
        slab in 1usize..400,
    ) {
        let of = |index: usize| [axes.0[index], axes.1[index], axes.2[index]];
        let shape = MaxPoolShape {
            items, input: of(0), kernel: of(1), stride: of(2), padding: of(3), dilation: of(4), ceil_mode,
        };
        let windows = shape.windows();
        prop_assume!(windows.is_ok());
        let windows = windows.unwrap();
        prop_assert_eq!(windows.output(), shape.output());
        check::<f32>(&windows, slab, |input| reference_of_shape(&shape, input));
        check::<f16>(&windows, slab, |input| reference_of_shape(&shape, input));
    }

    #[test]
    fn adaptive_agrees_with_the_definition(
        items in 1usize..3,
        from in (1usize..7, 1usize..9, 1usize..40),
        to in (1usize..7, 1usize..9, 1usize..40),
        slab in 1usize..400,
    ) {
        let (from, to) = (<[usize; 3]>::from(from), <[usize; 3]>::from(to));
        let windows = PoolWindows::adaptive(items, from, to).unwrap();
        check::<f32>(&windows, slab, |input| reference_of_adaptive(from, to, input));
        check::<bf16>(&windows, slab, |input| reference_of_adaptive(from, to, input));
    }
}

#[test]
fn dilated_windows_that_start_in_the_padding() {
    // Of width 8 the first elements of the windows are at 1, 2 and 0.
    for (input, kernel, padding, dilation) in [([1, 1, 8], 4, 2, 3), ([1, 1, 6], 3, 1, 2), ([1, 1, 9], 5, 2, 2)] {
        let [kernel, padding, dilation] = [[1, 1, kernel], [0, 0, padding], [1, 1, dilation]];
        let shape = MaxPoolShape { items: 2, input, kernel, padding, dilation, ..PLAIN };
        check::<f32>(&shape.windows().unwrap(), 1, |input| reference_of_shape(&shape, input));
    }
}

#[track_caller]
fn check_pinned(windows: Result<PoolWindows, ShapeError>, expected: &[f32], expected_gradient: &[f32; 18]) {
    const NAN: f32 = f32::NAN;
    let x = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 9.0, NAN, 7.0, NAN, 3.0, 2.0, 3.0];
    let windows = windows.unwrap();
    let mut output = vec![0.0; expected.len()];
    max_pool(&windows, &x, &mut output);
    assert_eq!(bits(&output), bits(expected), "{output:?}");
    let gradient: Vec<f32> = (1..=expected.len()).map(|index| index as f32).collect();
    let mut input_gradient = [0.5; 18];
    max_pool_backward(&windows, &x, &gradient, &mut input_gradient);
    assert_eq!(&input_gradient, expected_gradient);
}

// x = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 9, nan, 7, nan, 3, 2, 3.]).reshape(1, 1, 2, 3, 3)
// y = F.max_pool3d(x, ..); y.backward(torch.arange(1., y.numel() + 1).reshape(y.shape)); x.grad
#[test]
#[rustfmt::skip]
fn pytorch_values() {
    const NAN: f32 = f32::NAN;
    // F.max_pool3d(x, (2, 2, 2), (1, 1, 1)): of two that are no number the last takes the gradient
    check_pinned(MaxPoolShape { kernel: [2; 3], ..PLAIN }.windows(), &[NAN; 4],
        &[0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 4., 0., 6., 0., 0., 0.]);
    // F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))
    let padded = MaxPoolShape { kernel: [1, 3, 3], stride: [1, 2, 2], padding: [0, 1, 1], ..PLAIN };
    check_pinned(padded.windows(), &[5., 9., 6., 9., NAN, NAN, NAN, NAN],
        &[0., 0., 0., 0., 1., 6., 0., 3., 0., 0., 0., 0., 12., 0., 14., 0., 0., 0.]);
    // F.max_pool3d(x, (1, 2, 2), 1, 0, (1, 2, 2))
    let dilated = MaxPoolShape { kernel: [1, 2, 2], dilation: [1, 2, 2], ..PLAIN };
    check_pinned(dilated.windows(), &[5., 9.],
        &[0., 0., 0., 0., 0., 0., 0., 0., 1., 0., 0., 2., 0., 0., 0., 0., 0., 0.]);
    // F.max_pool3d(x, (1, 2, 2), 2, ceil_mode=True)
    let ceil = MaxPoolShape { kernel: [1, 2, 2], stride: [2; 3], ceil_mode: true, ..PLAIN };
    check_pinned(ceil.windows(), &[5., 9., 6., 5.],
        &[0., 0., 0., 0., 1., 2., 0., 3., 4., 0., 0., 0., 0., 0., 0., 0., 0., 0.]);
    // F.adaptive_max_pool3d(x, (1, 2, 2))
    check_pinned(PoolWindows::adaptive(1, [2, 3, 3], [1, 2, 2]), &[NAN; 4],
        &[0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 4., 0., 6., 0., 0., 0.]);
}

#[test]
fn where_all_is_negative_infinity_the_first_takes_the_gradient() {
    let windows = MaxPoolShape { kernel: [2, 3, 3], ..PLAIN }.windows().unwrap();
    let (mut output, mut gradient) = ([0.0], [0.0; 18]);
    max_pool(&windows, &[f32::NEG_INFINITY; 18], &mut output);
    assert_eq!(output, [f32::NEG_INFINITY]);
    max_pool_backward(&windows, &[f32::NEG_INFINITY; 18], &[2.0], &mut gradient);
    assert_eq!((gradient[0], gradient[1..].iter().sum::<f32>()), (2.0, 0.0));
}

#[test]
fn gradients_that_meet_are_summed_in_float32() {
    // 256 + 1 is no bfloat16, nor is 257; 259 rounds to 260.
    let windows = MaxPoolShape { input: [1, 1, 4], kernel: [1, 1, 3], padding: [0, 0, 1], ..PLAIN }.windows().unwrap();
    let value = |value: f32| bf16::from_f32(value);
    let mut gradient = [value(9.0); 4];
    let input = [0.0, 5.0, 1.0, 2.0].map(value);
    max_pool_backward(&windows, &input, &[256.0, 1.0, 2.0, 7.0].map(value), &mut gradient);
    assert_eq!(gradient, [0.0, 260.0, 0.0, 7.0].map(value));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let shape =
        MaxPoolShape { items: 3, input: [9, 30, 31], kernel: [3; 3], stride: [2, 1, 2], padding: [1; 3], ..PLAIN };
    let windows = shape.windows().unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let mut values = |len: usize| (0..len).map(|_| rng.random_range(-1.0..1.0)).collect::<Vec<f32>>();
    let (input, gradient) = (values(3 * 9 * 30 * 31), values(3 * shape.output().iter().product::<usize>()));
    let run = |threads: usize, slab: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut input_gradient = vec![0.0; input.len()];
        pool.install(|| max_pool_backward_on(simd::best(), slab, &windows, &input, &gradient, &mut input_gradient));
        bits(&input_gradient)
    };
    let one = run(1, 1 << 17);
    assert!([(2, 1 << 17), (3, 2000), (7, 1)].into_iter().all(|(threads, slab)| run(threads, slab) == one));
}

#[test]
fn sizes_that_do_not_go_together_are_named() {
    let message = |shape: MaxPoolShape| shape.windows().unwrap_err().to_string();
    let large = MaxPoolShape { kernel: [2, 4, 2], ..PLAIN };
    assert!(
        message(large)
            .starts_with("height: expected a kernel that spans at most the padded input of 3, found one that spans 4")
    );
    assert_eq!(large.output(), [1, 0, 2]);
    let empty = MaxPoolShape { input: [2; 3], kernel: [2; 3], padding: [1; 3], dilation: [3; 3], ..PLAIN };
    assert!(message(empty).starts_with("depth: expected an input in every window, found none in window 0"));
    let zero = ": expected a length of at least 1 for the ";
    assert_eq!(message(MaxPoolShape { dilation: [1, 0, 1], ..PLAIN }), format!("height{zero}dilation, found 0"));
    assert_eq!(message(MaxPoolShape { kernel: [0; 3], ..PLAIN }), format!("depth{zero}kernel, found 0"));
    assert!(PoolWindows::adaptive(1, [2, 0, 2], [1; 3]).is_err());
}

#[test]
#[should_panic(expected = "the gradient is [items, depth, height, width] of the windows' output")]
fn a_short_gradient_panics() {
    let windows = MaxPoolShape { kernel: [2; 3], ..PLAIN }.windows().unwrap();
    max_pool_backward::<f32>(&windows, &[0.0; 18], &[0.0; 3], &mut [0.0; 18]);
}

#[test]
#[should_panic(expected = "the output is [items, depth, height, width] of the windows")]
fn a_short_output_panics() {
    let windows = MaxPoolShape { kernel: [2; 3], ..PLAIN }.windows().unwrap();
    max_pool::<f32>(&windows, &[0.0; 18], &mut [0.0; 3]);
}

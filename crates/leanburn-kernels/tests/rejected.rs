//! Shapes that are too large, or do not go together, are rejected before anything is allocated or computed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leanburn_kernels::attention::AttentionShape;
use leanburn_kernels::axis_map::AxisMap;
use leanburn_kernels::conv::{self, ConvSettings, ConvShape, Input};
use leanburn_kernels::max_pool::{MaxPoolShape, PoolWindows};
use leanburn_kernels::norm::NormShape;

const MOST: &str = "expected at most 140737488355328 bytes of float32 for";

fn message<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.err().expect("it is rejected").to_string()
}

fn panic_message<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err().expect("it is rejected");
    panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

/// Once a read out of bounds: the length of the output wrapped around to a small one.
#[test]
fn padding_that_wraps_around() {
    let settings = ConvSettings { padding: [[1, 1], [0, 1 << 63], [0, 1]], ..ConvSettings::default() };
    let shape = ConvShape::new([1, 16, 34, 17, 34], [8, 16, 3, 3, 3], settings);
    assert_eq!(message(shape), format!("height: {MOST} the padded axis, found 36893488147419103300"));
    let settings = ConvSettings { padding: [[1, 1], [0, 1 << 40], [0, 1]], ..ConvSettings::default() };
    let shape = ConvShape::new([1, 16, 34, 17, 34], [8, 16, 3, 3, 3], settings);
    assert_eq!(message(shape), format!("{MOST} the padded input, found 88664617665227520"));
}

/// Once a write out of bounds: the span of the kernel wrapped around.
#[test]
fn a_dilation_that_wraps_around() {
    let settings = ConvSettings { stride: [2, 3, 1], dilation: [1, (1 << 63) - 1, 1], ..ConvSettings::default() };
    let shape = ConvShape::transposed([1, 16, 8, 8, 8], [16, 8, 3, 3, 3], settings, [0; 3]);
    assert_eq!(message(shape), format!("height: {MOST} the kernel with its dilation, found 73786976294838206456"));
}

/// Once a hang: as many lists as the stride has steps.
#[test]
fn a_stride_over_the_whole_volume_takes_no_time() {
    for stride in [4, 1 << 28, 1 << 62, usize::MAX] {
        let settings = ConvSettings { stride: [stride, 1, 1], ..ConvSettings::default() };
        let shape = ConvShape::new([1, 1, 3, 3, 3], [1, 1, 2, 3, 3], settings).unwrap();
        assert_eq!(shape.output_dims(), [1; 5]);
        let gradient = conv::data_gradient_allocating(&shape, Input::plain(&[2.0f32]), &[0.5; 18], None);
        assert_eq!((&gradient[..18], &gradient[18..]), (&[1.0; 18][..], &[0.0; 9][..]));
    }
}

#[test]
fn a_batch_that_wraps_around() {
    let found = panic_message(|| conv::bias_gradient((1 << 63) + 1, 2, &[1.0f32; 8], &mut [0.0; 2]));
    assert!(found.ends_with("not 8 values for 9223372036854775809 items of 2 channels"), "{found}");
    let shape = NormShape::new([1 << 62, 4, 1, 1, 3], 1);
    assert_eq!(message(shape), format!("{MOST} the input, found 221360928884514619392"));
    let shape = AttentionShape::new([1, (1 << 62) + 1, 4], [3, 3], 1.0);
    assert_eq!(message(shape), format!("{MOST} the queries, found 221360928884514619440"));
    let shape = AttentionShape::new([0, 2, 4], [3, 3], 1.0);
    assert_eq!(message(shape), "expected a length of at least 1 for the batch, found 0");
}

#[test]
fn windows_that_wrap_around() {
    let pool = MaxPoolShape {
        items: 1,
        input: [1, 1, 4],
        kernel: [1, 1, 3],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1, 1, 1 << 63],
        ceil_mode: false,
    };
    assert_eq!(pool.output(), [1, 1, 0]);
    assert!(message(pool.windows()).starts_with("width: expected a kernel that spans at most the padded input of 4"));
    let windows = PoolWindows::adaptive(1 << 40, [1 << 10, 1, 1], [1; 3]);
    assert_eq!(message(windows), format!("{MOST} the input, found 4503599627370496"));
    let map = AxisMap::average(4, usize::MAX, 1, [usize::MAX / 2; 2], true, true);
    assert_eq!(message(map), format!("{MOST} the padded axis, found 73786976294838206460"));
}

/// Once an abort: pushed one by one until there was no memory.
#[test]
fn maps_that_are_too_long() {
    let found = message(AxisMap::nearest(1, usize::MAX));
    assert_eq!(found, format!("{MOST} the map of an axis, found 295147905179352825856"));
    assert!(panic_message(|| AxisMap::identity(usize::MAX)).contains("the map of an axis"));
    assert!(panic_message(|| AxisMap::repeat(1 << 40, 1 << 40)).contains("the map of an axis"));
    assert_eq!(panic_message(|| AxisMap::every(3, 0)), "expected a stride of at least 1, found 0");
    assert_eq!(panic_message(|| AxisMap::repeat(3, 0)), "expected a factor of at least 1, found 0");
}

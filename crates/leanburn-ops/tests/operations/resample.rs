//! Interpolation and average pooling.

use leanburn_ops::{AvgPool3d, Interpolation, adaptive_avg_pool3d, avg_pool3d, interpolate3d};
use proptest::prelude::*;

use crate::case::{Case, cases};
use crate::plain;

fn volume() -> impl Strategy<Value = [usize; 5]> {
    (1usize..3, 1usize..4, [1usize..9, 1usize..9, 1usize..24])
        .prop_map(|(batch_size, channels, [depth, height, width])| [batch_size, channels, depth, height, width])
}

/// Size, kernel, stride and padding of one axis.
fn window() -> impl Strategy<Value = [usize; 4]> {
    (1usize..5, 1usize..4, 0usize..3, 0usize..10).prop_map(|(kernel, stride, padding, more)| {
        let padding = padding.min(kernel / 2);
        [(kernel - 2 * padding).max(1) + more, kernel, stride, padding]
    })
}

fn case(volume: [usize; 5]) -> Case {
    Case { volumes: vec![volume], ..Case::default() }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn nearest_to_any_size(volume in volume(), size in [1usize..12, 1usize..12, 1usize..30]) {
        case(volume).check(
            move |(x, _, _)| interpolate3d(x[0].clone(), size, Interpolation::Nearest),
            move |(x, _, _)| plain::nearest(x[0].clone(), size),
        );
    }

    #[test]
    fn nearest_by_whole_factors(volume in volume(), factors in [1usize..4, 1usize..4, 1usize..4]) {
        let size = std::array::from_fn(|axis| volume[axis + 2] * factors[axis]);
        case(volume).check(
            move |(x, _, _)| interpolate3d(x[0].clone(), size, Interpolation::Nearest),
            move |(x, _, _)| plain::repeat(x[0].clone(), factors),
        );
    }

    #[test]
    fn trilinear_to_any_size(
        volume in volume(),
        size in [1usize..12, 1usize..12, 1usize..30],
        align_corners in any::<bool>(),
    ) {
        Case { single_precision_constants: true, ..case(volume) }.check(
            move |(x, _, _)| interpolate3d(x[0].clone(), size, Interpolation::Trilinear { align_corners }),
            move |(x, _, _)| plain::trilinear(x[0].clone(), size, align_corners),
        );
    }

    #[test]
    fn avg_pool3d_of_any_windows(
        batch_size in 1usize..3,
        channels in 1usize..4,
        axes in [window(), window(), window()],
        count_include_pad in any::<bool>(),
        ceil_mode in any::<bool>(),
    ) {
        let [size, kernel_size, stride, padding] = std::array::from_fn(|of| axes.map(|axis| axis[of]));
        let windows = AvgPool3d { kernel_size, stride, padding, count_include_pad, ceil_mode };
        let volume = [batch_size, channels, size[0], size[1], size[2]];
        Case { single_precision_constants: true, ..case(volume) }.check(
            move |(x, _, _)| avg_pool3d(x[0].clone(), windows),
            move |(x, _, _)| plain::avg_pool3d(x[0].clone(), windows),
        );
    }

    #[test]
    fn adaptive_avg_pool3d_to_any_size(volume in volume(), size in [1usize..12, 1usize..12, 1usize..12]) {
        Case { single_precision_constants: true, ..case(volume) }.check(
            move |(x, _, _)| adaptive_avg_pool3d(x[0].clone(), size),
            move |(x, _, _)| plain::adaptive_avg_pool3d(x[0].clone(), size),
        );
    }
}

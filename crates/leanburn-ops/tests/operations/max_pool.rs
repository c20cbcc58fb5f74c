//! Max pooling.

use leanburn_ops::{MaxPool3d, adaptive_max_pool3d, max_pool3d};
use proptest::prelude::*;

use crate::case::{Case, cases};
use crate::plain;

/// Size, kernel, stride, padding and dilation of one axis; no window holds padding alone.
fn window() -> impl Strategy<Value = [usize; 5]> {
    (1usize..4, 1usize..4, any::<bool>(), 1usize..3, 0usize..8).prop_map(|(kernel, stride, pads, dilation, more)| {
        let padding = if pads && dilation == 1 { kernel / 2 } else { 0 };
        [dilation * (kernel - 1) + 1 + more, kernel, stride, padding, dilation]
    })
}

/// The inputs of each window of one axis.
fn places(
    size: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> Vec<Vec<usize>> {
    let room = size + 2 * padding - dilation * (kernel - 1) - 1;
    let mut count = if ceil_mode { room.div_ceil(stride) } else { room / stride } + 1;
    if (count - 1) * stride >= size + padding {
        count -= 1;
    }
    let inside = |place: usize| place.checked_sub(padding).filter(|place| *place < size);
    (0..count).map(|at| (0..kernel).filter_map(|tap| inside(at * stride + tap * dilation)).collect()).collect()
}

fn adaptive_places(size: usize, count: usize) -> Vec<Vec<usize>> {
    (0..count).map(|at| (at * size / count..((at + 1) * size).div_ceil(count)).collect()).collect()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn max_pool3d_of_any_windows(
        batch_size in 1usize..3,
        channels in 1usize..4,
        axes in [window(), window(), window()],
        ceil_mode in any::<bool>(),
    ) {
        let [size, kernel_size, stride, padding, dilation] = std::array::from_fn(|of| axes.map(|axis| axis[of]));
        let windows = MaxPool3d { kernel_size, stride, padding, dilation, ceil_mode };
        let places = axes.map(|[size, kernel, stride, padding, dilation]| {
            places(size, kernel, stride, padding, dilation, ceil_mode)
        });
        prop_assume!(places.iter().flatten().all(|window| !window.is_empty()));
        let volumes = vec![[batch_size, channels, size[0], size[1], size[2]]];
        Case { volumes, ..Case::default() }.check(
            move |(x, _, _)| max_pool3d(x[0].clone(), windows),
            move |(x, _, _)| plain::max_pool3d(x[0].clone(), &places),
        );
    }

    #[test]
    fn adaptive_max_pool3d_to_any_size(
        size in [1usize..9, 1usize..9, 1usize..24],
        output in [1usize..6, 1usize..6, 1usize..12],
    ) {
        let places: [_; 3] = std::array::from_fn(|axis| adaptive_places(size[axis], output[axis]));
        let volumes = vec![[2, 2, size[0], size[1], size[2]]];
        Case { volumes, ..Case::default() }.check(
            move |(x, _, _)| adaptive_max_pool3d(x[0].clone(), output),
            move |(x, _, _)| plain::max_pool3d(x[0].clone(), &places),
        );
    }
}

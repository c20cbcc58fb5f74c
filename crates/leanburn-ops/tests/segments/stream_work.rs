//! What a streamed segment computes again, counted on the recording device: as much as its preset says.

use burn::backend::ir::OperationIr;
use burn::prelude::*;
use burn::tensor::DType;
use leanburn_ops::recording::{Marker, as_on_cpu};
use leanburn_ops::{StreamKeep, StreamSettings, backward};

use crate::junction::Junction;
use crate::level::{Kind, Level};

const DIMS: [usize; 5] = [1, 8, 16, 8, 8];

/// Elements that the kernels of this name make in one forward and backward of a decoder's level, and their floating-point operations.
fn work(streamed: Option<StreamSettings>, kernel: &str) -> [u64; 2] {
    work_of(kernel, |device| {
        let level = Level::new(Kind::Decoder, [8, 4], device);
        let x = Tensor::<5>::zeros(DIMS, device).require_grad();
        let mut gradients = backward(level.run(x.clone() * 2.0, streamed).sum());
        assert_eq!(gradients.take(&x).map(|gradient| gradient.dims()), Some(DIMS));
    })
}

/// The same of a step on the recording device.
fn work_of(kernel: &str, step: impl FnOnce(&Device)) -> [u64; 2] {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| step(&device.clone().autodiff()));
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    let of_kernel = |operation: &OperationIr| match operation {
        OperationIr::Custom(custom) => match Marker::of(custom) {
            Some(Marker::Kernel { name, flops, .. }) if name == kernel => {
                Some([custom.outputs.iter().map(|output| output.shape.num_elements() as u64).sum(), flops])
            }
            _ => None,
        },
        _ => None,
    };
    operations.iter().filter_map(of_kernel).fold([0; 2], |sum: [u64; 2], of| [sum[0] + of[0], sum[1] + of[1]])
}

#[test]
fn forward_convolutions_run_as_often_as_the_preset_says() {
    let positions = 32 * 16 * 16;
    assert_eq!(work(None, "upsample_conv3d")[0], 8 * positions);
    assert_eq!(work(None, "conv3d")[0], (3 * 4 + 1) * positions);
    for (keep, ups, narrow) in [
        // U for its norm and again for H; in backward for H and Y, for the sums of its norm, and for its gradient.
        (StreamKeep::Two, 5, 2 * 3),
        // Y with its shortcut from the stored H, in every pass that makes the gradient of one of both or of U; U for the shortcut.
        (StreamKeep::One, 7, 2 + 2 * 5),
        // Everything up to the volume whose norm, sums or gradient a pass makes.
        (StreamKeep::None, 8, 7 + 2 * 6),
    ] {
        for slab_planes in [64, 16, 7, 4] {
            let settings = Some(StreamSettings::default().with_slab_planes(slab_planes).with_keep(keep));
            assert_eq!(work(settings, "upsample_conv3d")[0], ups * 8 * positions, "{keep:?} {slab_planes}");
            assert_eq!(work(settings, "conv3d")[0], (narrow * 4 + 1) * positions, "{keep:?} {slab_planes}");
        }
    }
}

#[test]
fn what_is_cached_is_not_made_again() {
    let positions = 32 * 16 * 16;
    let made = |keep, percent| {
        let settings = StreamSettings::default().with_slab_planes(4).with_keep(keep).with_cached_percent(percent);
        let [ups, narrow] = ["upsample_conv3d", "conv3d"].map(|kernel| work(Some(settings), kernel)[0] as f64);
        [ups / (8 * positions) as f64, (narrow / positions as f64 - 1.0) / 4.0]
    };
    for (keep, ups, narrow) in [
        // U, once in each direction.
        (StreamKeep::Two, 2.0, 2.0 * 3.0),
        // Forward U; backward Y, so that U is made for it and for the gradients of H and of the input.
        (StreamKeep::One, 1.0 + 3.0, 2.0 + 2.0 * 2.0),
        // Forward Y, backward H.
        (StreamKeep::None, 3.0 + 4.0, 2.0 + 1.0 + 2.0 * 5.0),
    ] {
        assert_eq!(made(keep, 100), [ups, narrow], "{keep:?}");
        let [nothing, half, all] = [0, 50, 100].map(|percent| made(keep, percent).iter().sum::<f64>());
        assert!(all < half && half < nothing, "{keep:?}: {nothing}, {half}, {all} convolutions");
        // A slab more than half of the planes may be there; what is made behind them reads a few of those in front.
        let share = (nothing - half) / (nothing - all);
        assert!((0.45..0.7).contains(&share), "{keep:?}: half of the planes save {share} of the convolutions");
    }
}

#[test]
fn gradients_of_weights_are_computed_once() {
    let [_, once] = work(None, "conv3d_weight_gradient");
    for keep in [StreamKeep::Two, StreamKeep::One, StreamKeep::None] {
        let settings = StreamSettings::default().with_slab_planes(7).with_keep(keep);
        assert_eq!(work(Some(settings), "conv3d_weight_gradient")[1], once, "{keep:?}");
    }
}

/// Elements that the kernels of this name make in one forward and backward of a segment of two inputs.
fn work_of_junction(streamed: Option<StreamSettings>, kernel: &str) -> [u64; 2] {
    work_of(kernel, |device| {
        let junction = Junction::new([2, 8, 4, 4], 2, DType::F32, device);
        drop(backward(junction.run(streamed).output.sum()));
    })
}

#[test]
fn of_two_inputs_convolutions_run_as_often_as_without_anything_stored() {
    // a convolution of four channels at twice the size of [2, 8, 4, 4]
    let one = 4 * 2 * 16 * 8 * 8;
    // the sum of both enlargements is one convolution away from the inputs: no preset stores it
    for keep in [StreamKeep::Two, StreamKeep::One, StreamKeep::None] {
        for slab_planes in [64, 7, 4] {
            let settings = Some(StreamSettings::default().with_slab_planes(slab_planes).with_keep(keep));
            let made = |kernel| work_of_junction(settings, kernel)[0] / one;
            // Each enlargement for its norm and for the output; in backward for the sums of the norm, and for the gradients of both inputs.
            assert_eq!(made("conv_transpose3d"), 2 * 4, "{keep:?} {slab_planes}");
            // The last once. Both in front of it for the output, and twice in backward for the slope behind them.
            assert_eq!(made("conv3d"), 1 + 2 * 3, "{keep:?} {slab_planes}");
            // Of all three for the sums, and for the gradients of the inputs; of the last also for the gradient of its slope.
            assert_eq!(made("conv3d_data_gradient"), 3 * 2 + 1, "{keep:?} {slab_planes}");
            let [_, of_weights] = work_of_junction(settings, "conv3d_weight_gradient");
            assert_eq!(of_weights, work_of_junction(None, "conv3d_weight_gradient")[1], "{keep:?} {slab_planes}");
        }
    }
}

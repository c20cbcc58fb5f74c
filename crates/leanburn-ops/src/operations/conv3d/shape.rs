//! The shape of a convolution.

use burn::tensor::ops::ConvOptions;
use leanburn_kernels::conv::ConvShape;

/// The shape of a convolution for the kernels.
///
/// # Panics
///
/// Panics if channels, groups and kernel do not go together.
pub(crate) fn shape(input: [usize; 5], weight: [usize; 5], options: &ConvOptions<3>) -> ConvShape {
    let [batch_size, channels_in, input @ ..] = input;
    let [channels_out, per_group, kernel @ ..] = weight;
    let groups = options.groups;
    assert!(
        channels_in == per_group * groups && channels_out.is_multiple_of(groups),
        "conv3d: {channels_in} channels in, weight {weight:?} and {groups} groups do not go together"
    );
    let shape = ConvShape {
        batch_size,
        channels_in,
        channels_out,
        groups,
        input,
        kernel,
        stride: options.stride,
        dilation: options.dilation,
        padding: options.padding.map(|(before, after)| [before, after]),
    };
    assert!(
        !shape.output().contains(&0),
        "conv3d: a kernel of {kernel:?}, dilation {:?}, is larger than the volume {input:?} with padding {:?}",
        options.dilation,
        options.padding
    );
    shape
}

/// The dimensions of the output.
pub(crate) fn output_dims(shape: &ConvShape) -> [usize; 5] {
    let [depth, height, width] = shape.output();
    [shape.batch_size, shape.channels_out, depth, height, width]
}

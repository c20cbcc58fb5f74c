//! The shapes of a transposed convolution, and of the convolution that it is the transpose of.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use leanburn_kernels::conv::ConvShape;

use crate::operations::conv3d::shape;

/// The dimensions of the output.
fn output_dims(input: [usize; 5], weight: [usize; 5], options: &ConvTransposeOptions<3>) -> [usize; 5] {
    let [batch_size, channels_in, size @ ..] = input;
    let [weight_channels, per_group, kernel @ ..] = weight;
    assert!(
        channels_in == weight_channels && channels_in.is_multiple_of(options.groups),
        "conv_transpose3d: {channels_in} channels in, weight {weight:?} and {} groups do not go together",
        options.groups
    );
    let [depth, height, width] = std::array::from_fn(|axis| {
        let grown = size[axis].saturating_sub(1) * options.stride[axis]
            + options.dilation[axis] * (kernel[axis] - 1)
            + 1
            + options.padding_out[axis];
        let cut = 2 * options.padding[axis];
        assert!(grown > cut, "conv_transpose3d: padding {:?} leaves nothing of axis {axis}", options.padding);
        grown - cut
    });
    [batch_size, per_group * options.groups, depth, height, width]
}

/// The options of the convolution from the output to the input.
pub(super) fn back(options: &ConvTransposeOptions<3>) -> ConvOptions<3> {
    ConvOptions::new(options.stride, options.padding, options.dilation, options.groups)
}

/// The convolution from the output to the input.
pub(super) fn convolution(input: [usize; 5], weight: [usize; 5], options: &ConvTransposeOptions<3>) -> ConvShape {
    let shape = shape(output_dims(input, weight, options), weight, &back(options));
    assert!(
        shape.output() == input[2..],
        "conv_transpose3d: padding_out {:?} must be smaller than the stride {:?}",
        options.padding_out,
        options.stride
    );
    shape
}

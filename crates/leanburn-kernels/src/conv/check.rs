//! What every pass asks of its arguments.

use crate::Stored;
use crate::conv::geometry::{ConvShape, Input, Output, Residual};

/// Checks the arguments of a pass from `input` to `output`, each with its channels and its length.
///
/// # Panics
///
/// If one does not fit the shape.
pub(crate) fn check<E: Stored>(
    shape: &ConvShape,
    input: &Input<'_, E>,
    (channels_in, input_len): (usize, usize),
    weight: &[f32],
    output: &Output<'_, E>,
    (channels_out, output_len): (usize, usize),
) {
    check_shape(shape);
    check_input(shape, input, channels_in, input_len);
    assert_eq!(weight.len(), shape.weight_len(), "the weight is not of the length that the shape says");
    assert_eq!(output.values.len(), output_len, "the output is not of the length that the shape says");
    if let Some(bias) = output.bias {
        assert_eq!(bias.len(), channels_out, "the bias does not have one element per channel of the output");
    }
    if let Residual::Of(residual) = output.residual {
        assert_eq!(residual.len(), output_len, "the residual is not as long as the output");
    }
}

/// Checks that a shape describes a convolution.
///
/// # Panics
///
/// If it does not.
pub(crate) fn check_shape(shape: &ConvShape) {
    let groups = shape.groups;
    assert!(groups > 0, "a convolution has at least one group");
    assert!(shape.channels_in.is_multiple_of(groups), "{} channels in, {groups} groups", shape.channels_in);
    assert!(shape.channels_out.is_multiple_of(groups), "{} channels out, {groups} groups", shape.channels_out);
    assert!(shape.kernel.iter().all(|size| *size > 0), "the kernel {:?} is empty", shape.kernel);
    assert!(shape.stride.iter().all(|step| *step > 0), "the stride {:?} has a zero", shape.stride);
    assert!(shape.dilation.iter().all(|step| *step > 0), "the dilation {:?} has a zero", shape.dilation);
}

/// Checks a volume to read.
///
/// # Panics
///
/// If it does not have `len` values, or its prologue not `channels` for each item.
pub(crate) fn check_input<E: Stored>(shape: &ConvShape, input: &Input<'_, E>, channels: usize, len: usize) {
    assert_eq!(input.values.len(), len, "the input is not of the length that the shape says");
    if let Some(prologue) = &input.prologue {
        let planes = shape.batch_size * channels;
        assert_eq!(prologue.scale.len(), planes, "the prologue's scale is not [batch_size, channels]");
        assert_eq!(prologue.shift.len(), planes, "the prologue's shift is not [batch_size, channels]");
    }
}

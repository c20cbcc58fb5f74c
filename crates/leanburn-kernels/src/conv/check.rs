//! What every pass asks of its arguments.

use crate::Stored;
use crate::conv::operands::{Input, Residual};
use crate::conv::packing::rows::SharedOutput;
use crate::conv::shape::ConvShape;

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
    output: &SharedOutput<'_, E>,
    (channels_out, output_len): (usize, usize),
) {
    check_input(shape, input, channels_in, input_len);
    check_weight(shape, weight);
    assert_eq!(output.len, output_len, "the output is not of the length that the shape says");
    if let Some(bias) = output.bias {
        assert_eq!(bias.len(), channels_out, "the bias does not have one element per channel of the output");
    }
    if let Residual::Of(residual) = output.residual {
        assert_eq!(residual.len(), output_len, "the residual is not as long as the output");
    }
}

/// Checks a weight to read.
///
/// # Panics
///
/// If it does not have the length that the shape says.
pub(crate) fn check_weight(shape: &ConvShape, weight: &[f32]) {
    assert_eq!(weight.len(), shape.weight_len(), "the weight is not of the length that the shape says");
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

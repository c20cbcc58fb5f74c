//! How much memory the convolutions take while they run, beside their inputs and outputs.

use super::ConvShape;

/// Bytes that [`forward`](super::forward) takes at most, for elements of `element_size` bytes.
pub fn forward_workspace(_shape: &ConvShape, _element_size: usize) -> usize {
    0
}

/// Bytes that [`data_gradient`](super::data_gradient) takes at most, for elements of `element_size` bytes.
pub fn data_gradient_workspace(_shape: &ConvShape, _element_size: usize) -> usize {
    0
}

/// Bytes that [`weight_gradient`](super::weight_gradient) takes at most, for elements of `element_size` bytes.
pub fn weight_gradient_workspace(_shape: &ConvShape, _element_size: usize) -> usize {
    0
}

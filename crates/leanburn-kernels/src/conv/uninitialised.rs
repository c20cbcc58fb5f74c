//! Convolutions into newly allocated memory, which is not cleared first.

use crate::conv::data_gradient::data_gradient;
use crate::conv::forward::forward;
use crate::conv::geometry::{ConvShape, Input, Output, Residual};
use crate::{Element, buffer::filled};

/// [`forward`] into a new vector, plus `residual` if there is one.
///
/// Shapes, memory, numerics and panics as [`forward`].
pub fn forward_allocating<E: Element>(
    shape: &ConvShape,
    input: Input<E>,
    weight: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[E]>,
) -> Vec<E> {
    let residual = residual.map_or(Residual::None, Residual::Of);
    // SAFETY: `forward` writes every element and reads none of its output unless the residual is in place.
    unsafe { filled(shape.output_len(), |values| forward(shape, input, weight, Output { values, bias, residual })) }
}

/// [`data_gradient`] into a new vector.
///
/// Shapes, memory, numerics and panics as [`data_gradient`].
pub fn data_gradient_allocating<E: Element>(
    shape: &ConvShape,
    gradient: Input<E>,
    weight: &[f32],
    bias: Option<&[f32]>,
) -> Vec<E> {
    let residual = Residual::None;
    // SAFETY: `data_gradient` writes every element and reads none of its output unless the residual is in place.
    unsafe {
        filled(shape.input_len(), |values| data_gradient(shape, gradient, weight, Output { values, bias, residual }))
    }
}

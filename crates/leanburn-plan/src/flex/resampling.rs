//! Pooling and interpolation of images and rows. Flex computes bf16 ones in f32, of copies of the whole tensors.

use burn::backend::ir::{ModuleOperationIr, TensorIr};
use burn::tensor::DType;

use super::inputs::{Inputs, elements, new_output};
use super::{reduce, widened};
use crate::memory_model::Effect;

pub(super) fn effect(operation: &ModuleOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use ModuleOperationIr::*;
    let output = match operation {
        MaxPool1dWithIndices(op) => return Some(reduce::with_indices(copies(inputs, &op.out), &op.out_indices)),
        MaxPool2dWithIndices(op) => return Some(reduce::with_indices(copies(inputs, &op.out), &op.out_indices)),
        // indices are made even if nobody asks for them
        MaxPool1d(op) => return Some(new_output(copies(inputs, &op.out) + 8 * elements(&op.out))),
        MaxPool2d(op) => return Some(new_output(copies(inputs, &op.out) + 8 * elements(&op.out))),
        MaxPool1dWithIndicesBackward(op) => &op.out,
        MaxPool2dWithIndicesBackward(op) => &op.out,
        AvgPool1d(op) => &op.out,
        AvgPool2d(op) => &op.out,
        AvgPool1dBackward(op) => &op.out,
        AvgPool2dBackward(op) => &op.out,
        AdaptiveAvgPool1d(op) => &op.out,
        AdaptiveAvgPool2d(op) => &op.out,
        AdaptiveAvgPool3d(op) => &op.out,
        AdaptiveAvgPool1dBackward(op) => &op.out,
        AdaptiveAvgPool2dBackward(op) => &op.out,
        AdaptiveAvgPool3dBackward(op) => &op.out,
        Interpolate(op) => &op.out,
        InterpolateBackward(op) => &op.out,
        _ => return None,
    };
    Some(new_output(copies(inputs, output)))
}

fn copies(inputs: &Inputs<'_>, output: &TensorIr) -> u64 {
    if output.dtype == DType::BF16 { widened(inputs, output) } else { inputs.copies() }
}

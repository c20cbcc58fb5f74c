//! Transposed convolution as an operation that saves its input and nothing else.

use burn::tensor::{Tensor, ops::ConvTransposeOptions};

use super::computations::{DataGradient, Forward, WeightGradient};
use super::shape::convolution;
use super::transposed::Transposed;
use crate::engine::run;
use crate::operations::conv3d::BiasGradient;
use crate::operations::operation::{AnyTensor, Operation, apply};

/// Transposed 3D convolution.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`
/// - weight: `[channels_in, channels_out / groups, ..]`
/// - output: `[batch_size, channels_out, ..]`, each axis
///   `(size - 1) stride + dilation (kernel - 1) + 1 + padding_out - 2 padding`
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer, if the weight needs a gradient. Workspace on the CPU: a few
/// rows for each thread.
///
/// # Panics
///
/// Panics if channels, groups and weight do not go together, padding leaves nothing, or `padding_out` is not smaller
/// than the stride.
#[must_use]
pub fn conv_transpose3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
) -> Tensor<5> {
    let transposed = Transposed(convolution(x.dims(), weight.dims(), &options));
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], tracked| {
        let (x, weight, bias) = (x.given(), weight.given(), bias.optional());
        let output =
            run(Forward { transposed: &transposed, x: &x, weight: &weight, bias: bias.as_ref(), options: &options });
        let input_dims = x.dims();
        (output, ConvTranspose { x: tracked[1].then_some(x), input_dims, weight, bias, options })
    })
}

/// What [`conv_transpose3d`] saves.
#[derive(Clone, Debug)]
struct ConvTranspose {
    /// For the weight's gradient only.
    x: Option<Tensor<5>>,
    input_dims: [usize; 5],
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
}

impl Operation<3> for ConvTranspose {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 3]) -> [AnyTensor; 3] {
        let Self { x, input_dims, weight, bias, options } = self;
        let transposed = &Transposed(convolution(input_dims, weight.dims(), &options));
        let (gradient, weight, options) = (&gradient, &weight, &options);
        let bias = bias.filter(|_| needed[2]).map(|bias| run(BiasGradient { gradient, dtype: bias.dtype() }));
        let weight_gradient = x.map(|x| run(WeightGradient { transposed, x: &x, gradient, weight, options }));
        let x = needed[0].then(|| run(DataGradient { transposed, gradient, weight, options }));
        [x.into(), weight_gradient.into(), bias.into()]
    }
}

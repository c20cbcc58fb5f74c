//! Transposed convolution as an operation that saves its input and nothing else.

use burn::tensor::{DType, Tensor, ops::ConvTransposeOptions};
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use super::computations::{DataGradient, Forward, WeightGradient};
use super::transposed::Transposed;
use crate::engine::run;
use crate::operations::check::{assert_not_empty, assert_parameter, assert_per_channel, valid};
use crate::operations::conv3d::BiasGradient;
use crate::operations::operation::{AnyTensor, Operation, Unsaved, apply};

/// Transposed 3D convolution.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty
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
/// Panics if an axis of the input is empty (an empty batch too); channels, groups, weight and bias do not go together; a kernel,
/// stride, dilation or the groups are zero; padding leaves nothing; `padding_out` is not smaller than the stride; the padded
/// output, the weight or the input takes more than 128 TiB; or weight or bias are float64 and the input is not.
#[must_use]
pub fn conv_transpose3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
) -> Tensor<5> {
    const OPERATION: &str = "conv_transpose3d";
    assert_not_empty(OPERATION, "input", &x);
    let transposed = Transposed(shape(OPERATION, x.dims(), x.dtype(), (&weight, bias.as_ref()), &options));
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], tracked| {
        let (x, weight, bias) = (x.given::<5>(), weight.given(), bias.optional());
        let saved = ConvTranspose { x: tracked[1].then(|| x.clone()), weight, bias, transposed };
        let ConvTranspose { weight, bias, transposed, .. } = saved.clone();
        let (dims, dtype, device) = (transposed.0.input_dims(), x.dtype(), x.device());
        let compute = move || run(Forward { transposed: &transposed, x: &x, weight: &weight, bias: bias.as_ref() });
        (Unsaved { dims, dtype, device, compute }, saved)
    })
}

/// The convolution from the output to the input; of these dimensions and this dtype.
pub(crate) fn shape(
    operation: &str,
    input: [usize; 5],
    dtype: DType,
    (weight, bias): (&Tensor<5>, Option<&Tensor<1>>),
    options: &ConvTransposeOptions<3>,
) -> ConvShape {
    assert_parameter(operation, "weight", weight, dtype);
    let ConvTransposeOptions { stride, padding, padding_out, dilation, groups } = *options;
    let settings = ConvSettings { stride, dilation, padding: padding.map(|padding| [padding; 2]), groups };
    let shape = valid(operation, ConvShape::transposed(input, weight.dims(), settings, padding_out));
    assert_per_channel(operation, "bias", bias, shape.input_dims()[1], dtype);
    shape
}

/// What [`conv_transpose3d`] saves.
#[derive(Clone, Debug)]
struct ConvTranspose {
    /// For the weight's gradient only.
    x: Option<Tensor<5>>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    transposed: Transposed,
}

impl Operation<3> for ConvTranspose {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 3]) -> [AnyTensor; 3] {
        let Self { x, weight, bias, transposed } = self;
        let (gradient, weight, transposed) = (&gradient, &weight, &transposed);
        let bias = bias.filter(|_| needed[2]).map(|bias| run(BiasGradient { gradient, dtype: bias.dtype() }));
        let weight_gradient = x.map(|x| run(WeightGradient { transposed, x: &x, gradient, weight }));
        let x = needed[0].then(|| run(DataGradient { transposed, gradient, weight }));
        [x.into(), weight_gradient.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.x.iter_mut().for_each(exchange);
    }
}

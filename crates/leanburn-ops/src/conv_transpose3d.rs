//! Transposed convolution, and enlargement with a convolution behind it: both keep the small volume only.

use burn::backend::DispatchTensor;
use burn::tensor::{Tensor, ops::ConvTransposeOptions};

use crate::Convolution;
use crate::engine::{conv, conv_transpose, upsample_conv::UpsampleConv};
use crate::operation::{Operation, apply};

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
/// Held for backward: the input, shared with whoever made it, if the weight needs a gradient. Workspace on the CPU: a few
/// rows for each thread.
///
/// # Panics
///
/// Panics if channels, groups and weight do not go together, padding leaves nothing, or `padding_out` is not smaller
/// than the stride.
pub fn conv_transpose3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
) -> Tensor<5> {
    let inputs = [Some(x.into_dispatch()), Some(weight.into_dispatch()), bias.map(Tensor::into_dispatch)];
    let output = apply(inputs, |inputs, tracked| {
        let (x, weight, bias) = tensors(inputs);
        let output = conv_transpose::forward(&x, &weight, bias.as_ref(), &options);
        let input_dims = x.dims();
        (output.into_dispatch(), ConvTranspose { x: tracked[1].then_some(x), input_dims, weight, bias, options })
    });
    Tensor::from_dispatch(output)
}

/// Nearest-neighbour enlargement by whole factors, then a convolution of stride one.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`
/// - output: `[batch_size, channels_out, ..]`, each axis `factor size + padding - kernel + 1`
///
/// # Memory
///
/// Held for backward: the small input, shared with whoever made it; the enlarged volume is `product of factors` times
/// larger. On the CPU it never exists, in forward or in backward; on other devices it stands while the convolution runs.
///
/// # Numerics
///
/// On the CPU elements of the kernel that meet the same voxel are added first (8 products for each output instead of 27
/// for a 3x3x3 kernel and factors of two); otherwise as [`conv3d`](crate::conv3d).
///
/// # Panics
///
/// Panics if a factor is zero, stride or dilation is not one, or channels, groups and weight do not go together.
pub fn upsample_conv3d(x: Tensor<5>, factors: [usize; 3], convolution: Convolution) -> Tensor<5> {
    let Convolution { weight, bias, options } = convolution;
    let inputs = [Some(x.into_dispatch()), Some(weight.into_dispatch()), bias.map(Tensor::into_dispatch)];
    let output = apply(inputs, |inputs, tracked| {
        let (x, weight, bias) = tensors(inputs);
        let upsample = UpsampleConv::new(x.dims(), weight.dims(), factors, options);
        let output = upsample.forward(&x, &weight, bias.as_ref());
        (output.into_dispatch(), UpsampleConvolution { x: tracked[1].then_some(x), weight, bias, upsample })
    });
    Tensor::from_dispatch(output)
}

fn tensors([x, weight, bias]: [Option<DispatchTensor>; 3]) -> (Tensor<5>, Tensor<5>, Option<Tensor<1>>) {
    let tensor = |tensor: Option<DispatchTensor>| Tensor::from_dispatch(tensor.expect("given"));
    (tensor(x), tensor(weight), bias.map(Tensor::from_dispatch))
}

/// What [`conv_transpose3d`] keeps.
#[derive(Clone, Debug)]
struct ConvTranspose {
    /// Kept for the weight's gradient only.
    x: Option<Tensor<5>>,
    input_dims: [usize; 5],
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
}

impl Operation<3> for ConvTranspose {
    fn backward(self, gradient: DispatchTensor, needed: [bool; 3]) -> [Option<DispatchTensor>; 3] {
        let Self { x, input_dims, weight, bias, options } = self;
        let gradient = Tensor::<5>::from_dispatch(gradient);
        let bias = bias.filter(|_| needed[2]).map(|bias| conv::bias_gradient(&gradient, bias.dtype()));
        let weight_gradient = x.map(|x| conv_transpose::weight_gradient(&x, &gradient, &weight, &options));
        let x = needed[0].then(|| conv_transpose::data_gradient(&gradient, &weight, input_dims, &options));
        [x.map(Tensor::into_dispatch), weight_gradient.map(Tensor::into_dispatch), bias.map(Tensor::into_dispatch)]
    }
}

/// What [`upsample_conv3d`] keeps.
#[derive(Clone, Debug)]
struct UpsampleConvolution {
    /// Kept for the weight's gradient only.
    x: Option<Tensor<5>>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    upsample: UpsampleConv,
}

impl Operation<3> for UpsampleConvolution {
    fn backward(self, gradient: DispatchTensor, needed: [bool; 3]) -> [Option<DispatchTensor>; 3] {
        let Self { x, weight, bias, upsample } = self;
        let gradient = Tensor::<5>::from_dispatch(gradient);
        let bias = bias.filter(|_| needed[2]).map(|bias| conv::bias_gradient(&gradient, bias.dtype()));
        let weight_gradient = x.map(|x| upsample.weight_gradient(&x, &gradient, &weight));
        let x = needed[0].then(|| upsample.data_gradient(&gradient, &weight));
        [x.map(Tensor::into_dispatch), weight_gradient.map(Tensor::into_dispatch), bias.map(Tensor::into_dispatch)]
    }
}

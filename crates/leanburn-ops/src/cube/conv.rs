//! The kernels of convolutions: products of matrices whose operands are read from the volumes.
//!
//! Burn's own convolutions on GPUs are tuned when a shape is first met. On a card through Vulkan that took minutes, chose a
//! kernel that reaches 2 TFLOP/s of an H100's 67 in float32, and in half precision may choose one that adds up in half
//! precision. These need no tuning, no copies, and add up in float32 whatever the volume's dtype is.

use burn::tensor::{DType, Device, Tensor};
use leanburn_kernels::conv::ConvShape;

use super::kernel::Kernel;
use super::launch::launch;
use super::parts::dims_of_weight_parts;
use super::plain_strides::with_plain_strides;
use crate::numerics::cast_to;
use crate::recording::Call;

/// `conv3d(x, weight) + bias`, in the dtype of `x`; channels last in memory.
pub(crate) struct Convolve<'a> {
    pub(crate) x: Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
    pub(crate) bias: Option<&'a Tensor<1>>,
    pub(crate) shape: &'a ConvShape,
}

impl Kernel for Convolve<'_> {
    const NAME: &'static str = "convolve3d";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let (dims, dtype) = (self.shape.output_dims(), self.x.dtype());
        call.costs(self.shape.flops(), 0).takes(self.x).reads(self.weight).record_one(dims, dtype)
    }

    fn launched(self) -> Tensor<5> {
        let Self { x, weight, bias, shape } = self;
        let bias = match bias {
            Some(bias) => cast_to(bias.clone(), DType::F32),
            None => Tensor::zeros([shape.weight_dims()[0]], (&x.device(), DType::F32)),
        };
        let weight = cast_to(weight.clone(), DType::F32).into_dispatch();
        Tensor::from_dispatch(launch!(convolve3d(x.into_dispatch(), weight, bias.into_dispatch(), *shape)))
    }
}

/// The gradient of a convolution's weight, in float32.
pub(crate) struct ConvolveWeightGradient<'a> {
    pub(crate) x: Tensor<5>,
    pub(crate) gradient: Tensor<5>,
    pub(crate) shape: &'a ConvShape,
}

impl Kernel for ConvolveWeightGradient<'_> {
    const NAME: &'static str = "convolve3d_weight_gradient";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let Self { x, gradient, shape } = self;
        let call = call.costs(shape.flops(), 0).takes(x).takes(gradient);
        added_up(call.record_one(dims_of_weight_parts(shape), DType::F32), shape)
    }

    fn launched(self) -> Tensor<5> {
        let [x, gradient] = [self.x, self.gradient].map(Tensor::into_dispatch);
        let parts = launch!(convolve3d_weight_gradient(x, gradient, *self.shape));
        with_plain_strides(added_up(Tensor::from_dispatch(parts), self.shape))
    }
}

fn added_up(parts: Tensor<4>, shape: &ConvShape) -> Tensor<5> {
    let [channels_out, per_group, depth, height, width] = shape.weight_dims();
    let sums: Tensor<5> = parts.sum_dim(0).reshape([channels_out, depth, height, width, per_group]);
    sums.permute([0, 4, 1, 2, 3])
}

//! Enlargement with a convolution behind it as an operation that saves the small volume only.

use burn::tensor::Tensor;

use super::folding::UpsampleConv;
use crate::engine::run;
use crate::operations::conv3d::{BiasGradient, Convolution};
use crate::operations::operation::{AnyTensor, Operation, Unsaved, apply};

/// Nearest-neighbour enlargement by whole factors, then a convolution of stride one.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty
/// - output: `[batch_size, channels_out, ..]`, each axis `factor size + padding - kernel + 1`
///
/// # Memory
///
/// Saved for backward: the small input, shared with its producer; the enlarged volume is `product of factors` times
/// larger. On the CPU it never exists, in forward or in backward; on other devices it is there while the convolution runs.
///
/// # Numerics
///
/// On the CPU elements of the kernel that meet the same voxel are added first (8 products for each output instead of 27
/// for a 3x3x3 kernel and factors of two); otherwise as [`conv3d`](crate::conv3d).
///
/// # Panics
///
/// Panics if a factor is zero, or stride or dilation is not one, and as [`conv3d`](crate::conv3d) of the enlarged volume.
#[must_use]
pub fn upsample_conv3d(x: Tensor<5>, factors: [usize; 3], convolution: Convolution) -> Tensor<5> {
    let upsample = UpsampleConv::new(&x, factors, &convolution);
    let Convolution { weight, bias, .. } = convolution;
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], tracked| {
        let (x, weight, bias) = (x.given::<5>(), weight.given::<5>(), bias.optional());
        let saved = UpsampleConvolution { x: tracked[1].then(|| x.clone()), weight, bias, upsample };
        let UpsampleConvolution { weight, bias, upsample, .. } = saved.clone();
        let (dims, dtype, device) = (upsample.output_dims(), x.dtype(), x.device());
        let compute = move || upsample.forward(&x, &weight, bias.as_ref());
        (Unsaved { dims, dtype, device, compute }, saved)
    })
}

/// What [`upsample_conv3d`] saves.
#[derive(Clone, Debug)]
struct UpsampleConvolution {
    /// For the weight's gradient only.
    x: Option<Tensor<5>>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    upsample: UpsampleConv,
}

impl Operation<3> for UpsampleConvolution {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 3]) -> [AnyTensor; 3] {
        let Self { x, weight, bias, upsample } = self;
        let bias =
            bias.filter(|_| needed[2]).map(|bias| run(BiasGradient { gradient: &gradient, dtype: bias.dtype() }));
        let weight_gradient = x.map(|x| upsample.weight_gradient(&x, &gradient, &weight));
        let x = needed[0].then(|| upsample.data_gradient(&gradient, &weight));
        [x.into(), weight_gradient.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.x.iter_mut().for_each(exchange);
    }
}

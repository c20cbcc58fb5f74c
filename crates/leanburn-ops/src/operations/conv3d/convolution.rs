//! A convolution, and its shape.

use burn::tensor::{DType, Tensor, ops::ConvOptions};
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use crate::operations::check::{
    assert_dtype, assert_not_empty, assert_parameter, assert_per_channel, assert_volume, valid,
};

/// A 3D convolution: weight, bias and how the kernel moves.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// `[channels_out, channels_in / groups, depth, height, width]` of the kernel.
    pub weight: Tensor<5>,
    /// `[channels_out]`.
    pub bias: Option<Tensor<1>>,
    /// Stride, padding (each end of each axis has its own), dilation, groups.
    pub options: ConvOptions<3>,
}

impl Convolution {
    /// The shape of `operation`, this convolution of `x`.
    ///
    /// # Panics
    ///
    /// Panics if shapes and dtypes do not go together.
    pub(super) fn checked(&self, operation: &str, x: &Tensor<5>, residual: Option<&Tensor<5>>) -> ConvShape {
        assert_not_empty(operation, "input", x);
        let shape = self.shape(operation, x.dims(), x.dtype());
        if let Some(residual) = residual {
            assert_volume(operation, "residual", residual, shape.output_dims());
            assert_dtype(operation, "residual", residual, x.dtype());
        }
        shape
    }

    /// The shape of this convolution of a volume.
    ///
    /// # Panics
    ///
    /// As [`checked`](Self::checked).
    pub(crate) fn shape(&self, operation: &str, input: [usize; 5], dtype: DType) -> ConvShape {
        assert_parameter(operation, "weight", &self.weight, dtype);
        let shape = ConvShape::new(input, self.weight.dims(), settings(&self.options));
        let shape = valid(operation, shape.and_then(ConvShape::fitting));
        assert_per_channel(operation, "bias", self.bias.as_ref(), shape.output_dims()[1], dtype);
        shape
    }
}

/// Burn's options as the kernels take them.
fn settings(options: &ConvOptions<3>) -> ConvSettings {
    let padding = options.padding.map(|(before, after)| [before, after]);
    ConvSettings { stride: options.stride, dilation: options.dilation, padding, groups: options.groups }
}

/// The other way round.
pub(super) fn options(settings: ConvSettings) -> ConvOptions<3> {
    let ConvSettings { stride, dilation, padding, groups } = settings;
    ConvOptions::new_with_padding(stride, padding.map(|[before, after]| (before, after)), dilation, groups)
}

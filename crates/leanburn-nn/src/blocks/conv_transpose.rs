//! Transposed 3D convolution in the dtype of its input.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{Initializer, conv};
use burn::tensor::{Device, Tensor, ops::ConvTransposeOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::conv_transpose3d;

use super::{conversion::ConversionError, initial};
use crate::validation::Rules;

/// Configuration of [`ConvTranspose3d`].
#[derive(Config, Debug)]
pub struct ConvTranspose3dConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the cubic kernel.
    pub kernel_size: usize,
    /// Stride along each axis: the factor by which the volume grows.
    pub stride: usize,
    /// Voxels left out at both ends of each axis.
    #[config(default = 0)]
    pub padding: usize,
    /// Voxels added at the far end of each axis, fewer than `stride`.
    #[config(default = 0)]
    pub padding_out: usize,
    /// Steps between the elements of the kernel.
    #[config(default = 1)]
    pub dilation: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl ConvTranspose3dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let [channels_in, channels_out] = self.channels;
        validation.counts([
            ("channels", channels_in),
            ("channels", channels_out),
            ("kernel_size", self.kernel_size),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ]);
        let expected = "fewer voxels than the stride";
        let sound = self.padding_out < self.stride.max(1);
        validation.check_together(sound, &["stride"], "padding_out", expected, self.padding_out, "use `stride` - 1");
        validation.errors()
    }

    /// Makes the layer.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> ConvTranspose3d {
        panic_if_invalid("ConvTranspose3d", &self.validate());
        let options = [self.stride, self.padding, self.padding_out, self.dilation].map(|option| [option; 3]);
        ConvTranspose3d::drawn(self.channels, [self.kernel_size; 3], options, (self.bias, None), device)
    }
}

/// Transposed 3D convolution.
///
/// # Memory
///
/// Saved for backward: the input.
#[derive(Module, Debug)]
pub struct ConvTranspose3d {
    weight: Param<Tensor<5>>,
    bias: Option<Param<Tensor<1>>>,
    /// Stride, padding, padding out, dilation, each of every axis.
    options: [[usize; 3]; 4],
}

impl ConvTranspose3d {
    /// A layer with these options and a bias or none, its weight uniform as PyTorch's default or as an initializer says.
    fn drawn(
        [channels_in, channels_out]: [usize; 2],
        kernel_size: [usize; 3],
        options: [[usize; 3]; 4],
        (bias, initializer): (bool, Option<&Initializer>),
        device: &Device,
    ) -> Self {
        let [depth, height, width] = kernel_size;
        // as PyTorch counts it
        let fans = [channels_out, channels_in].map(|channels| channels * depth * height * width);
        let dims = [channels_in, channels_out, depth, height, width];
        let (weight, bias) = match initializer {
            None => {
                let bias = bias.then(|| initial::uniform(fans[0], [channels_out], device));
                (initial::uniform(fans[0], dims, device), bias)
            }
            Some(initializer) => {
                let bias = bias.then(|| Initializer::Zeros.init([channels_out], device));
                (initial::described(initializer, dims, fans, device), bias)
            }
        };
        Self { weight, bias, options }
    }

    /// A layer that makes the axes larger by these factors: its kernel is a voxel of what goes in.
    pub(crate) fn enlarging(
        channels: [usize; 2],
        factors: [usize; 3],
        initialized: (bool, Option<&Initializer>),
        device: &Device,
    ) -> Self {
        Self::drawn(channels, factors, [factors, [0; 3], [0; 3], [1; 3]], initialized, device)
    }

    /// Applies the transposed convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis
    ///   `(size - 1) stride + dilation (kernel_size - 1) + 1 + padding_out - 2 padding`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (weight, bias, options) = self.parameters();
        conv_transpose3d(x, weight, bias, options)
    }

    /// Weight `[channels_in, channels_out, ..]`, bias and options for [`conv_transpose3d`].
    pub(crate) fn parameters(&self) -> (Tensor<5>, Option<Tensor<1>>, ConvTransposeOptions<3>) {
        let [stride, padding, padding_out, dilation] = self.options;
        let options = ConvTransposeOptions::new(stride, padding, padding_out, dilation, 1);
        (self.weight.val(), self.bias.as_ref().map(|bias| bias.val()), options)
    }
}

/// Burn's layer, with the same weights.
///
/// # Errors
///
/// [`ConversionError`] of a layer in groups.
impl TryFrom<conv::ConvTranspose3d> for ConvTranspose3d {
    type Error = ConversionError;

    fn try_from(conv: conv::ConvTranspose3d) -> Result<Self, ConversionError> {
        if conv.groups != 1 {
            return Err(ConversionError {
                layer: "ConvTranspose3d",
                key: "groups",
                expected: "1",
                found: conv.groups.to_string(),
                help: "call `leanburn::ops::conv_transpose3d` with its weight and options",
            });
        }
        let options = [conv.stride, conv.padding, conv.padding_out, conv.dilation];
        Ok(Self { weight: conv.weight, bias: conv.bias, options })
    }
}

/// The layer as Burn's, with the same weights.
impl From<ConvTranspose3d> for conv::ConvTranspose3d {
    fn from(ConvTranspose3d { weight, bias, options }: ConvTranspose3d) -> Self {
        let [stride, padding, padding_out, dilation] = options;
        let [channels_in, channels_out, kernel_size @ ..] = weight.dims();
        let channels = [channels_in, channels_out];
        Self { weight, bias, stride, kernel_size, dilation, groups: 1, padding, padding_out, channels }
    }
}

//! 3D convolution in the dtype of its input.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, PaddingConfig3d, conv};
use burn::tensor::{Device, Tensor, ops::ConvOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Convolution, conv3d};

use super::{conversion::ConversionError, initial};
use crate::validation::Rules;

/// Configuration of [`Conv3d`].
#[derive(Config, Debug)]
pub struct Conv3dConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the cubic kernel.
    pub kernel_size: usize,
    /// Stride along each axis.
    #[config(default = 1)]
    pub stride: usize,
    /// Zeros added at both ends of each axis.
    #[config(default = 0)]
    pub padding: usize,
    /// Steps between the elements of the kernel.
    #[config(default = 1)]
    pub dilation: usize,
    /// Groups of channels that do not see each other, a divisor of both numbers of channels; with as many as channels the convolution
    /// is depthwise.
    #[config(default = 1)]
    pub groups: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
    /// Distribution of the weight; `None` for PyTorch's default, uniform in `±1/sqrt(fan_in)`, for weight and bias.
    /// The bias is zero otherwise.
    #[config(default = "None")]
    pub initializer: Option<Initializer>,
}

impl Conv3dConfig {
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
        validation.groups("groups", self.groups, "channels", &self.channels);
        validation.errors()
    }

    /// Makes the layer.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Conv3d {
        panic_if_invalid("Conv3d", &self.validate());
        let config = conv::Conv3dConfig::new(self.channels, [self.kernel_size; 3])
            .with_stride([self.stride; 3])
            .with_dilation([self.dilation; 3])
            .with_groups(self.groups)
            .with_bias(self.bias);
        Conv3d::drawn(&config, [self.padding; 3], self.initializer.as_ref(), device)
    }

    /// Makes the layer; its bias starts from these numbers, one a channel of the output, if there are any.
    pub(crate) fn init_from(&self, bias: Option<Vec<f32>>, device: &Device) -> Conv3d {
        let mut layer = self.init(device);
        if let Some(bias) = bias {
            layer.conv.bias = Some(initial::fixed(bias, device));
        }
        layer
    }
}

/// 3D convolution.
///
/// Weight and bias are float32, input and output of one dtype; see [`conv3d`].
///
/// # Memory
///
/// Saved for backward: the input.
#[derive(Module, Debug)]
pub struct Conv3d {
    conv: conv::Conv3d,
    padding: [usize; 3],
}

impl Conv3d {
    /// The layer that Burn's configuration describes but for its padding, which has so many zeros at both ends of each axis; weights as
    /// [`Conv3dConfig::initializer`] says.
    pub(crate) fn drawn(
        config: &conv::Conv3dConfig,
        padding: [usize; 3],
        initializer: Option<&Initializer>,
        device: &Device,
    ) -> Self {
        let [depth, height, width] = padding;
        let mut conv = config.clone().with_padding(PaddingConfig3d::Explicit(depth, height, width)).init(device);
        let ([channels_in, channels_out], [depth, height, width]) = (config.channels, config.kernel_size);
        let dims = [channels_out, channels_in / config.groups, depth, height, width];
        let fans = [channels_in, channels_out].map(|channels| channels / config.groups * depth * height * width);
        conv.weight = match initializer {
            None => initial::uniform(fans[0], dims, device),
            Some(initializer) => initial::described(initializer, dims, fans, device),
        };
        conv.bias = config.bias.then(|| match initializer {
            None => initial::uniform(fans[0], [channels_out], device),
            Some(_) => Initializer::Zeros.init([channels_out], device),
        });
        Self { conv, padding }
    }

    /// Applies the convolution.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis
    ///   `(size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1`, rounded down
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `channels_in` channels.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        conv3d(x, self.convolution())
    }

    /// The convolution for an operation that it is folded into.
    pub fn convolution(&self) -> Convolution {
        Convolution {
            weight: self.conv.weight.val(),
            bias: self.conv.bias.as_ref().map(|bias| bias.val()),
            options: ConvOptions::new(self.conv.stride, self.padding, self.conv.dilation, self.conv.groups),
        }
    }
}

/// Burn's layer, with the same weights. Its padding must not depend on the volume: `Same` is taken where kernels are odd and nothing
/// is strided.
///
/// # Errors
///
/// [`ConversionError`] of another `Same`.
impl TryFrom<conv::Conv3d> for Conv3d {
    type Error = ConversionError;

    fn try_from(conv: conv::Conv3d) -> Result<Self, ConversionError> {
        let padding = match conv.padding {
            PaddingConfig3d::Valid => [0; 3],
            PaddingConfig3d::Explicit(depth, height, width) => [depth, height, width],
            PaddingConfig3d::Same if conv.stride == [1; 3] && conv.kernel_size.iter().all(|size| size % 2 == 1) => {
                conv.kernel_size.map(|size| size / 2)
            }
            PaddingConfig3d::Same => {
                return Err(ConversionError {
                    layer: "Conv3d",
                    key: "padding",
                    expected: "as many zeros at both ends, whatever the size of the volume",
                    found: format!("Same with a kernel of {:?} and strides of {:?}", conv.kernel_size, conv.stride),
                    help: "make it with `PaddingConfig3d::Explicit`",
                });
            }
        };
        Ok(Self { conv, padding })
    }
}

/// The layer as Burn's, with the same weights.
impl From<Conv3d> for conv::Conv3d {
    fn from(Conv3d { conv, padding: [depth, height, width] }: Conv3d) -> Self {
        Self { padding: PaddingConfig3d::Explicit(depth, height, width), ..conv }
    }
}

/// Weight and bias, for tests of other blocks.
#[cfg(test)]
pub(super) fn parameters(conv: &Conv3d) -> (Tensor<5>, Option<Tensor<1>>) {
    (conv.conv.weight.val(), conv.conv.bias.as_ref().map(|bias| bias.val()))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Distribution};

    use super::*;

    #[test]
    fn the_dtype_of_the_input_decides() {
        let device = Device::flex().autodiff();
        let conv = Conv3dConfig::new([2, 3], 3).with_padding(1).init(&device);
        let x = Tensor::<5>::random([1, 2, 4, 4, 4], Distribution::Default, &device);
        let expected = conv.forward(x.clone());
        for (dtype, tolerance) in [(DType::F16, 2e-3), (DType::BF16, 2e-2)] {
            let y = conv.forward(x.clone().cast(dtype));
            assert_eq!(y.dtype(), dtype);
            let difference = (y.cast(DType::F32) - expected.clone()).abs().max().into_scalar::<f32>();
            assert!(difference < tolerance, "{dtype:?} {difference}");
            assert!(difference > 0.0, "{dtype:?} was not rounded");
        }
    }

    #[test]
    fn groups_do_not_see_each_other() {
        let device = Device::flex();
        let config = Conv3dConfig::new([4, 6], 3).with_padding(1).with_groups(2);
        let conv = config.init(&device);
        assert_eq!(parameters(&conv).0.dims(), [6, 2, 3, 3, 3]);
        let x = Tensor::<5>::random([1, 4, 4, 4, 4], Distribution::Default, &device);
        let plain = conv.forward(x.clone());
        let changed = conv.forward(Tensor::cat(vec![x.clone().narrow(1, 0, 2), x.narrow(1, 2, 2) + 1.0], 1));
        let same = |first| {
            let of = |y: &Tensor<5>| y.clone().narrow(1, first, 3).into_data();
            of(&plain) == of(&changed)
        };
        assert_eq!([same(0), same(3)], [true, false]);
        let wrong = config.with_groups(3).validate();
        assert_eq!(crate::validation::keys(wrong), ["groups"]);
    }

    #[test]
    fn a_given_distribution_leaves_the_bias_zero() {
        let device = Device::flex();
        let config = Conv3dConfig::new([2, 3], 3);
        let bias =
            |config: &Conv3dConfig| parameters(&config.init(&device)).1.unwrap().abs().max().into_scalar::<f32>();
        assert!(bias(&config) > 0.0);
        assert_eq!(bias(&config.with_initializer(Some(Initializer::Normal { mean: 0.0, std: 0.02 }))), 0.0);
    }
}

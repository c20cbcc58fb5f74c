//! One level of the decoder.

use burn::module::Module;
use burn::tensor::ops::ConvTransposeOptions;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Stages, Unstreamable, Volume, conv_transpose3d};

use super::config::UNet3dConfig;
use super::unit::{UNetResidual, norm_act};
use crate::blocks::{ConvTranspose3d, ConvTranspose3dConfig, NormAct};

/// What a level of the decoder does.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum UNetDecoder {
    /// A transposed convolution.
    Layer(UNetUpsample),
    /// A transposed convolution and a residual unit.
    Residual(UNetResidualDecoder),
}

/// A transposed convolution and a residual unit.
#[derive(Module, Debug)]
pub struct UNetResidualDecoder {
    upsample: UNetUpsample,
    unit: UNetResidual,
}

impl UNetDecoder {
    /// The decoder of a level; the finest one ends with a bare convolution.
    pub(super) fn new(channels: [usize; 2], level: usize, config: &UNet3dConfig, device: &Device) -> Self {
        let (strides, is_finest, [_, channels_out]) = (config.strides[level], level == 0, channels);
        if config.num_res_units == 0 {
            return Self::Layer(UNetUpsample::new(channels, strides, !is_finest, config, device));
        }
        let activations = if is_finest { 0 } else { 1 };
        Self::Residual(UNetResidualDecoder {
            upsample: UNetUpsample::new(channels, strides, true, config, device),
            unit: UNetResidual::new([channels_out; 2], [1; 3], [1, activations], config, device),
        })
    }

    /// Joins the output of the encoder's level (the skip connection) with that of the level below.
    ///
    /// # Shapes
    ///
    /// - `skip`: `[batch_size, channels, depth, height, width]`
    /// - `below`: `[batch_size, channels_below, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis times its stride
    pub fn forward(&self, skip: Tensor<5>, below: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Layer(upsample) => upsample.adn.forward(upsample.forward(skip, below)),
            Self::Residual(UNetResidualDecoder { upsample, unit }) => {
                unit.forward(upsample.forward(skip, below), &upsample.adn)
            }
        }
    }
}

impl UNetDecoder {
    /// What the level computes of its two inputs, in stages, the skip connection of so many channels.
    ///
    /// # Errors
    ///
    /// [`Unstreamable`] with dropout.
    pub(super) fn stages(&self, skip_channels: usize) -> Result<Stages, Unstreamable> {
        let mut stages = Stages::of_inputs(2);
        let h = match self {
            Self::Layer(upsample) | Self::Residual(UNetResidualDecoder { upsample, .. }) => {
                upsample.append_to(&mut stages, skip_channels)
            }
        };
        match self {
            Self::Layer(upsample) => {
                let (h, entry) = upsample.adn.in_stages(&mut stages, h, upsample.channels_out())?;
                stages.entry(h, entry, None);
            }
            Self::Residual(UNetResidualDecoder { upsample, unit }) => {
                unit.append_to(&mut stages, h, (&upsample.adn, upsample.channels_out()))?;
            }
        }
        Ok(stages)
    }
}

/// Transposed convolution of two volumes as if they were one, their channels one behind the other; norm and activation
/// follow, or nothing.
///
/// # Memory
///
/// Saved for backward: both volumes, shared with their producers; they are never copied into one.
#[derive(Module, Debug)]
pub struct UNetUpsample {
    conv: ConvTranspose3d,
    adn: NormAct,
    strides: [usize; 3],
}

impl UNetUpsample {
    fn new(
        channels: [usize; 2],
        strides: [usize; 3],
        has_activation: bool,
        config: &UNet3dConfig,
        device: &Device,
    ) -> Self {
        let conv = ConvTranspose3dConfig::new(channels, config.up_kernel_size, 1).with_bias(config.bias);
        Self {
            conv: conv.with_padding(config.up_kernel_size / 2).init(device),
            adn: norm_act(has_activation, channels[1], config, device),
            strides,
        }
    }

    fn parameters(&self) -> (Tensor<5>, Option<Tensor<1>>, ConvTransposeOptions<3>) {
        let (weight, bias, mut options) = self.conv.parameters();
        options.stride = self.strides;
        options.padding_out = self.strides.map(|stride| stride - 1);
        (weight, bias, options)
    }

    fn channels_out(&self) -> usize {
        self.conv.parameters().0.dims()[1]
    }

    /// The transposed convolution of both inputs in stages.
    fn append_to(&self, stages: &mut Stages, first: usize) -> Volume {
        let (weight, bias, options) = self.parameters();
        let mut inputs = stages.inputs();
        let (skip, below) = (inputs.next().expect("two inputs"), inputs.next().expect("two inputs"));
        let second = weight.dims()[0] - first;
        let of_below = weight.clone().narrow(0, first, second);
        let of_below = stages.conv_transpose3d(below, of_below, None, options.clone(), None);
        stages.conv_transpose3d(skip, weight.narrow(0, 0, first), bias, options, Some(of_below))
    }

    /// The transposed convolution, without norm and activation.
    fn forward(&self, skip: Tensor<5>, below: Tensor<5>) -> Tensor<5> {
        let (weight, bias, options) = self.parameters();
        let (first, second) = (skip.dims()[1], below.dims()[1]);
        let of_skip = conv_transpose3d(skip, weight.clone().narrow(0, 0, first), bias, options.clone());
        of_skip + conv_transpose3d(below, weight.narrow(0, first, second), None, options)
    }
}

//! Convolutions of one level, each followed by norm and activation, with a residual around all of them or without.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Convolution, Stages, Unstreamable, Volume, conv3d};

use super::config::UNet3dConfig;
use crate::blocks::{Conv3d, Conv3dConfig, InStages, NormAct, NormActConfig};
use crate::segmented::apart;

/// What a level of the encoder does.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum UNetUnit {
    /// One convolution.
    Layer(UNetLayer),
    /// A residual unit.
    Residual(UNetResidual),
}

impl UNetUnit {
    /// A unit whose first convolution has the given strides.
    pub(super) fn new(channels: [usize; 2], strides: [usize; 3], config: &UNet3dConfig, device: &Device) -> Self {
        match config.num_res_units {
            0 => Self::Layer(UNetLayer::new(channels, strides, true, config, device)),
            units => Self::Residual(UNetResidual::new(channels, strides, [units, units], config, device)),
        }
    }

    /// Applies the unit.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis divided by its stride, rounded up
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Layer(layer) => layer.adn.forward(conv3d(x, layer.convolution())),
            Self::Residual(unit) => unit.forward(apart(x), &NormAct::identity()),
        }
    }
}

impl InStages for UNetUnit {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        match self {
            Self::Layer(layer) => {
                let h = stages.conv3d(x, layer.convolution());
                layer.append_entry(stages, h, None)
            }
            Self::Residual(unit) => unit.append_to(stages, x, (&NormAct::identity(), 0)),
        }
    }
}

/// Convolution, norm, activation; or the convolution alone.
#[derive(Module, Debug)]
pub struct UNetLayer {
    conv: Conv3d,
    adn: NormAct,
    strides: [usize; 3],
}

impl UNetLayer {
    fn new(
        channels: [usize; 2],
        strides: [usize; 3],
        has_activation: bool,
        config: &UNet3dConfig,
        device: &Device,
    ) -> Self {
        let conv = Conv3dConfig::new(channels, config.kernel_size).with_bias(config.bias);
        Self {
            conv: conv.with_padding(config.kernel_size / 2).init(device),
            adn: norm_act(has_activation, channels[1], config, device),
            strides,
        }
    }

    fn convolution(&self) -> Convolution {
        with_strides(&self.conv, self.strides)
    }

    /// Appends norm and activation of what the convolution has made, plus a residual.
    fn append_entry(&self, stages: &mut Stages, h: Volume, plus: Option<Volume>) -> Result<Volume, Unstreamable> {
        let (h, entry) = self.adn.in_stages(stages, h, self.channels_out())?;
        Ok(stages.entry(h, entry, plus))
    }

    fn channels_out(&self) -> usize {
        self.conv.convolution().weight.dims()[0]
    }
}

/// Norm and activation behind a convolution of the model, or none.
pub(super) fn norm_act(exists: bool, num_channels: usize, config: &UNet3dConfig, device: &Device) -> NormAct {
    let layer = NormActConfig::new(num_channels).with_norm(config.norm).with_dropout(config.dropout);
    match exists {
        true => layer.with_activation(config.activation).init(device),
        false => NormAct::identity(),
    }
}

fn with_strides(conv: &Conv3d, strides: [usize; 3]) -> Convolution {
    let mut convolution = conv.convolution();
    convolution.options.stride = strides;
    convolution
}

/// Convolutions one behind the other plus the input, through a convolution where the shape changes.
///
/// `activation(norm(conv_n(.. activation(norm(conv_1(x))) ..))) + residual(x)`. Source:
/// [Deep Residual Learning](https://arxiv.org/abs/1512.03385).
///
/// # Memory
///
/// Saved for backward: the input, and what each convolution gives.
#[derive(Module, Debug)]
pub struct UNetResidual {
    units: Vec<UNetLayer>,
    residual: Option<Conv3d>,
    strides: [usize; 3],
}

impl UNetResidual {
    /// A unit of so many convolutions, so many of which, counted from the first, are followed by norm and activation.
    pub(super) fn new(
        channels: [usize; 2],
        strides: [usize; 3],
        [units, activations]: [usize; 2],
        config: &UNet3dConfig,
        device: &Device,
    ) -> Self {
        let [channels_in, channels_out] = channels;
        let layer = |unit: usize| match unit {
            0 => UNetLayer::new(channels, strides, unit < activations, config, device),
            _ => UNetLayer::new([channels_out; 2], [1; 3], unit < activations, config, device),
        };
        // a kernel of one where only the channels change
        let kernel_size = if strides == [1; 3] { 1 } else { config.kernel_size };
        let residual = || Conv3dConfig::new(channels, kernel_size).with_bias(config.bias).with_padding(kernel_size / 2);
        let changes_shape = strides != [1; 3] || channels_in != channels_out;
        Self {
            units: (0..units).map(layer).collect(),
            residual: changes_shape.then(|| residual().init(device)),
            strides,
        }
    }

    /// Applies the unit to what `entry` gives of the input.
    ///
    /// # Shapes
    ///
    /// As [`UNetUnit::forward`].
    pub(super) fn forward(&self, x: Tensor<5>, entry: &NormAct) -> Tensor<5> {
        let x = entry.of(x);
        let residual = match &self.residual {
            Some(conv) => x.then_conv3d(with_strides(conv, self.strides), None),
            None => x.value(),
        };
        let mut layers = self.units.iter();
        let first = layers.next().expect("a unit has a convolution");
        let h = x.then_conv3d(first.convolution(), None);
        drop(x);
        let (h, last) =
            layers.fold((h, first), |(h, before), layer| (before.adn.then_conv3d(h, layer.convolution(), None), layer));
        last.adn.forward(h) + residual
    }

    /// What the unit computes of what `entry` makes of a volume of so many channels, in stages.
    pub(super) fn append_to(
        &self,
        stages: &mut Stages,
        x: Volume,
        (entry, channels): (&NormAct, usize),
    ) -> Result<Volume, Unstreamable> {
        let mut layers = self.units.iter();
        let first = layers.next().expect("a unit has a convolution");
        let (x, entry) = entry.in_stages(stages, x, channels)?;
        let mut h = stages.entry_conv3d(x, entry.clone(), first.convolution(), None);
        let mut last = first;
        for layer in layers {
            let (of_last, entry) = last.adn.in_stages(stages, h, last.channels_out())?;
            h = stages.entry_conv3d(of_last, entry, layer.convolution(), None);
            last = layer;
        }
        let residual = match &self.residual {
            Some(conv) => stages.entry_conv3d(x, entry, with_strides(conv, self.strides), None),
            None => stages.entry(x, entry, None),
        };
        last.append_entry(stages, h, Some(residual))
    }
}

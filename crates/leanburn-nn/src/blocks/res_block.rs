//! Residual block of two normalised convolutions.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Activation, Stages, Unstreamable, Volume, norm_act_conv3d};

use super::conv::{Conv3d, Conv3dConfig};
use super::group_norm::{GroupNorm, GroupNormConfig};
use super::in_stages::InStages;
use crate::validation::Rules;

/// Configuration of [`ResBlock`].
#[derive(Config, Debug)]
pub struct ResBlockConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Groups of both norms, a divisor of both numbers of channels.
    pub norm_num_groups: usize,
    /// Added to the variance in both norms.
    #[config(default = 1e-6)]
    pub norm_eps: f64,
}

impl ResBlockConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let [channels_in, channels_out] = self.channels;
        validation.counts([("channels", channels_in), ("channels", channels_out)]);
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &self.channels);
        validation.positive("norm_eps", self.norm_eps, "use 1e-6");
        validation.errors()
    }

    /// Makes the block.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> ResBlock {
        panic_if_invalid("ResBlock", &self.validate());
        let [channels_in, channels_out] = self.channels;
        let norm =
            |channels| GroupNormConfig::new(self.norm_num_groups, channels).with_epsilon(self.norm_eps).init(device);
        let conv = |channels| Conv3dConfig::new(channels, 3).with_padding(1).init(device);
        ResBlock {
            norm1: norm(channels_in),
            conv1: conv(self.channels),
            norm2: norm(channels_out),
            conv2: conv([channels_out; 2]),
            nin_shortcut: (channels_in != channels_out).then(|| Conv3dConfig::new(self.channels, 1).init(device)),
        }
    }
}

/// Group norm, SiLU, 3x3x3 convolution, twice, plus the input (through a 1x1x1 convolution where the channels change).
///
/// Source: [Deep Residual Learning](https://arxiv.org/abs/1512.03385), in the order of
/// [Identity Mappings](https://arxiv.org/abs/1603.05027).
///
/// # Memory
///
/// Saved for backward: the input and the result of the first convolution. As a recomputed segment: the input.
#[derive(Module, Debug)]
pub struct ResBlock {
    norm1: GroupNorm,
    conv1: Conv3d,
    norm2: GroupNorm,
    conv2: Conv3d,
    nin_shortcut: Option<Conv3d>,
}

impl ResBlock {
    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, depth, height, width]`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let half = |x, norm: &GroupNorm, conv: &Conv3d, skip| {
            norm_act_conv3d(x, Some(norm.norm()), Activation::Silu, conv.convolution(), skip)
        };
        let h = half(x.clone(), &self.norm1, &self.conv1, None);
        let skip = match &self.nin_shortcut {
            Some(shortcut) => shortcut.forward(x),
            None => x,
        };
        half(h, &self.norm2, &self.conv2, Some(skip))
    }
}

impl InStages for ResBlock {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        let half = |stages: &mut Stages, x, norm: &GroupNorm, conv: &Conv3d, skip| {
            stages.norm_act_conv3d(x, Some(norm.norm()), Activation::Silu, conv.convolution(), skip)
        };
        let h = half(stages, x, &self.norm1, &self.conv1, None);
        let skip = match &self.nin_shortcut {
            Some(shortcut) => stages.conv3d(x, shortcut.convolution()),
            None => x,
        };
        Ok(half(stages, h, &self.norm2, &self.conv2, Some(skip)))
    }
}

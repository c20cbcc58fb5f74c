//! Residual block with a bottleneck, that may enlarge its input.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, activate, conv3d, group_norm_act, norm_act_conv3d};

use crate::blocks::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig, GroupNorm, GroupNormConfig};

/// Channels of a block's output for one of its bottleneck.
pub(super) const EXPANSION: usize = 4;

/// A 1x1, a 3x3 and a 1x1 convolution with group norms behind them, plus the input, and a ReLU. Where the block enlarges, the second
/// convolution and that of the input are transposed.
///
/// # Memory
///
/// Saved for backward: the output, and what each convolution gives, 2.5 times the output in all.
#[derive(Module, Debug)]
pub struct BevBlock {
    conv1: Conv2d,
    bn1: GroupNorm,
    conv2: BevConv,
    bn2: GroupNorm,
    conv3: Conv2d,
    bn3: GroupNorm,
    downsample: Option<(BevConv, GroupNorm)>,
}

/// A convolution, or one that enlarges.
#[derive(Module, Debug)]
pub enum BevConv {
    /// Keeps the size.
    Plain(Conv2d),
    /// Enlarges.
    Transposed(ConvTranspose2d),
}

impl BevConv {
    /// A kernel of `size` that keeps the size of a plane, or with a stride one that enlarges it by that much.
    fn new(channels: [usize; 2], size: usize, stride: usize, device: &Device) -> Self {
        let config = Conv2dConfig::new(channels, size).with_padding(size / 2).with_bias(false);
        if stride == 1 {
            return Self::Plain(config.init(device));
        }
        let padding = size / 2;
        let config = ConvTranspose2dConfig::new(channels, stride + 2 * padding, stride).with_padding(padding);
        Self::Transposed(config.with_bias(false).init(device))
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Plain(conv) => conv.forward(x),
            Self::Transposed(conv) => conv.forward(x),
        }
    }
}

impl BevBlock {
    /// A block that takes `channels_in` and gives four times its bottleneck's channels.
    pub(super) fn new([channels_in, channels]: [usize; 2], stride: usize, num_groups: usize, device: &Device) -> Self {
        let channels_out = EXPANSION * channels;
        let norm = |channels| GroupNormConfig::new(num_groups, channels).init(device);
        let pointwise = |channels| Conv2dConfig::new(channels, 1).with_bias(false).init(device);
        let shortcut = || (BevConv::new([channels_in, channels_out], 1, stride, device), norm(channels_out));
        Self {
            conv1: pointwise([channels_in, channels]),
            bn1: norm(channels),
            conv2: BevConv::new([channels; 2], 3, stride, device),
            bn2: norm(channels),
            conv3: pointwise([channels, channels_out]),
            bn3: norm(channels_out),
            downsample: (stride != 1 || channels_in != channels_out).then(shortcut),
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, 1, height, width]`
    /// - output: `[batch_size, channels_out, 1, ..]`, height and width times the stride
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let h = conv3d(x.clone(), self.conv1.convolution());
        let h = match &self.conv2 {
            BevConv::Plain(conv) => {
                norm_act_conv3d(h, Some(self.bn1.norm()), Activation::Relu, conv.convolution(), None)
            }
            BevConv::Transposed(conv) => conv.forward(group_norm_act(h, self.bn1.norm(), Activation::Relu)),
        };
        let h = norm_act_conv3d(h, Some(self.bn2.norm()), Activation::Relu, self.conv3.convolution(), None);
        let residual = match &self.downsample {
            Some((conv, norm)) => norm.forward(conv.forward(x)),
            None => x,
        };
        activate(self.bn3.forward(h) + residual, Activation::Relu)
    }
}

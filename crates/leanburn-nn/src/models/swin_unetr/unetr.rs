//! The convolutional blocks of UNETR.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, Convolution, activate, conv3d, norm_act_conv3d, recompute};

use super::config::PATCH;
use crate::blocks::{Conv3d, Conv3dConfig, ConvTranspose3d, ConvTranspose3dConfig, Norm, NormConfig};
use crate::segmented::apart;

/// Slope of the activations below zero.
const ACTIVATION: Activation = Activation::LeakyRelu(0.01);

/// Two convolutions with norms, added to the input: MONAI's `UnetResBlock`.
///
/// `activation(norm(conv2(activation(norm(conv1(x))))) + residual(x))`, where the residual is the input, or `norm(conv3(x))` if the
/// channels change.
///
/// # Memory
///
/// Saved for backward: the input, what the first two convolutions give, and the output; `norm(conv3(x))` is computed again. A norm over the
/// batch is no part of an operation: what the first one gives is held too.
#[derive(Module, Debug)]
pub struct UnetrResBlock {
    conv1: Conv3d,
    conv2: Conv3d,
    conv3: Option<Conv3d>,
    norm1: Option<Norm>,
    norm2: Option<Norm>,
    norm3: Option<Norm>,
}

impl UnetrResBlock {
    /// The block from so many channels to so many.
    pub fn new(channels: [usize; 2], norm: NormConfig, device: &Device) -> Self {
        let [channels_in, channels_out] = channels;
        let is_changed = channels_in != channels_out;
        let norm = || norm.init(channels_out, Initializer::Ones, device);
        let conv =
            |channels, size| Conv3dConfig::new(channels, size).with_padding(size / 2).with_bias(false).init(device);
        Self {
            conv1: conv(channels, 3),
            conv2: conv([channels_out; 2], 3),
            conv3: is_changed.then(|| conv(channels, 1)),
            norm1: norm(),
            norm2: norm(),
            norm3: is_changed.then(norm).flatten(),
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, depth, height, width]`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_parts(&[apart(x)])
    }

    /// The same of volumes as if they were one, their channels one behind the other; they are never copied into one.
    fn forward_parts(&self, parts: &[Tensor<5>]) -> Tensor<5> {
        let residual = match &self.conv3 {
            Some(conv) => {
                // A convolution of one voxel is cheaper to compute again than its result is to hold.
                let layers = (conv.clone(), self.norm3.clone());
                recompute(&layers, parts.to_vec(), |(conv, norm), parts: Vec<Tensor<5>>| {
                    Norm::normed(norm.as_ref(), of_parts(conv, &parts))
                })
            }
            None => parts[0].clone(),
        };
        let h = of_parts(&self.conv1, parts);
        let (h, norm) = Norm::fold(self.norm1.as_ref(), h);
        let conv2 = self.conv2.convolution();
        activate(
            match &self.norm2 {
                None => norm_act_conv3d(h, norm, ACTIVATION, conv2, Some(residual)),
                second => Norm::normed(second.as_ref(), norm_act_conv3d(h, norm, ACTIVATION, conv2, None)) + residual,
            },
            ACTIVATION,
        )
    }
}

/// The convolution of volumes as if they were one, their channels one behind the other.
fn of_parts(conv: &Conv3d, parts: &[Tensor<5>]) -> Tensor<5> {
    let Convolution { weight, bias, options } = conv.convolution();
    let mut first = 0;
    let mut sum: Option<Tensor<5>> = None;
    for part in parts {
        let channels = part.dims()[1];
        let weight = if parts.len() == 1 { weight.clone() } else { weight.clone().narrow(1, first, channels) };
        let bias = bias.clone().filter(|_| sum.is_none());
        let convolution = Convolution { weight, bias, options: options.clone() };
        sum = Some(match sum.take() {
            None => conv3d(part.clone(), convolution),
            sum => norm_act_conv3d(part.clone(), None, Activation::None, convolution, sum),
        });
        first += channels;
    }
    sum.expect("a convolution has an input")
}

/// A transposed convolution that doubles the volume, joined with a skip connection by a residual block: MONAI's `UnetrUpBlock`.
///
/// # Memory
///
/// Saved for backward: both inputs, the enlarged one, what the first two convolutions give, and the output.
#[derive(Module, Debug)]
pub struct UnetrUpBlock {
    transp_conv: ConvTranspose3d,
    conv_block: UnetrResBlock,
}

impl UnetrUpBlock {
    /// The block from so many channels to so many, which the skip connection has too.
    pub fn new(channels: [usize; 2], norm: NormConfig, device: &Device) -> Self {
        let channels_out = channels[1];
        Self {
            transp_conv: ConvTranspose3dConfig::new(channels, PATCH, PATCH).with_bias(false).init(device),
            conv_block: UnetrResBlock::new([2 * channels_out, channels_out], norm, device),
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - `below`: `[batch_size, channels_in, depth, height, width]`
    /// - `skip` and output: `[batch_size, channels_out, 2 depth, 2 height, 2 width]`
    pub fn forward(&self, below: Tensor<5>, skip: Tensor<5>) -> Tensor<5> {
        self.conv_block.forward_parts(&[self.transp_conv.forward(below), apart(skip)])
    }
}

//! The convolutional blocks of nnU-Net and of UNETR.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, conv};
use burn::tensor::{Device, Tensor};
use leanburn_ops::{
    Activation, Convolution, StageEntry, Stages, Unstreamable, Volume, activate, conv3d, group_norm_act,
    norm_act_conv3d, recompute,
};

use super::conv::Conv3d;
use super::conv_transpose::ConvTranspose3d;
use super::in_stages::InStages;
use super::norm::{Norm, NormConfig};
use crate::segmented::apart;

/// Slope of the activations below zero.
const ACTIVATION: Activation = Activation::LeakyRelu(0.01);

/// Configuration of [`UnetBlock`].
#[derive(Config, Debug)]
pub struct UnetBlockConfig {
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Size of the kernels along each axis, odd numbers.
    #[config(default = "[3; 3]")]
    pub kernel_size: [usize; 3],
    /// Stride of the first convolution along each axis, at most one more than the kernel.
    #[config(default = "[1; 3]")]
    pub stride: [usize; 3],
    /// The norm behind each convolution.
    #[config(default = "NormConfig::Instance")]
    pub norm: NormConfig,
    /// Whether the input is added before the last activation.
    #[config(default = true)]
    pub is_residual: bool,
    /// Distribution of the weights; `None` for PyTorch's default.
    #[config(default = "None")]
    pub initializer: Option<Initializer>,
}

impl UnetBlockConfig {
    /// Makes the block.
    pub fn init(&self, device: &Device) -> UnetBlock {
        let [channels_in, channels_out] = self.channels;
        let is_changed = self.is_residual && (channels_in != channels_out || self.stride != [1; 3]);
        let norm = || self.norm.init(channels_out, Initializer::Ones, device);
        let conv = |channels, kernel_size: [usize; 3], stride: [usize; 3]| {
            let padding = [0, 1, 2].map(|axis| (kernel_size[axis] + 1).saturating_sub(stride[axis]) / 2);
            let config = conv::Conv3dConfig::new(channels, kernel_size).with_stride(stride).with_bias(false);
            Conv3d::drawn(&config, padding, self.initializer.as_ref(), device)
        };
        UnetBlock {
            conv1: conv(self.channels, self.kernel_size, self.stride),
            conv2: conv([channels_out; 2], self.kernel_size, [1; 3]),
            conv3: is_changed.then(|| conv(self.channels, [1; 3], self.stride)),
            norm1: norm(),
            norm2: norm(),
            norm3: is_changed.then(norm).flatten(),
            is_residual: self.is_residual,
        }
    }
}

/// Two convolutions with norms: MONAI's `UnetBasicBlock`, or added to the input its `UnetResBlock`.
///
/// `activation(norm(conv2(activation(norm(conv1(x))))) + residual(x))`, where the residual is nothing, the input, or
/// `norm(conv3(x))` if the shape changes.
///
/// # Memory
///
/// Saved for backward: the input, what the first two convolutions give, and the output; `norm(conv3(x))` is computed again. A norm over the
/// batch is no part of an operation: what the first one gives is held too.
#[derive(Module, Debug)]
pub struct UnetBlock {
    conv1: Conv3d,
    conv2: Conv3d,
    conv3: Option<Conv3d>,
    norm1: Option<Norm>,
    norm2: Option<Norm>,
    norm3: Option<Norm>,
    is_residual: bool,
}

impl UnetBlock {
    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels_in, depth, height, width]`
    /// - output: `[batch_size, channels_out, ..]`, each axis divided by its stride, which must divide it
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_parts(&[apart(x)])
    }

    /// The same of volumes as if they were one, their channels one behind the other; they are never copied into one.
    fn forward_parts(&self, parts: &[Tensor<5>]) -> Tensor<5> {
        let residual = self.residual(parts);
        let h = of_parts(&self.conv1, parts);
        let (h, norm) = Norm::fold(self.norm1.as_ref(), h);
        let conv2 = self.conv2.convolution();
        match (&self.norm2, residual) {
            (None, residual) => activate(norm_act_conv3d(h, norm, ACTIVATION, conv2, residual), ACTIVATION),
            (second, Some(residual)) => {
                let h = norm_act_conv3d(h, norm, ACTIVATION, conv2, None);
                activate(Norm::normed(second.as_ref(), h) + residual, ACTIVATION)
            }
            (second, None) => {
                let h = norm_act_conv3d(h, norm, ACTIVATION, conv2, None);
                match Norm::fold(second.as_ref(), h) {
                    (h, Some(norm)) => group_norm_act(h, norm, ACTIVATION),
                    (h, None) => activate(h, ACTIVATION),
                }
            }
        }
    }

    /// What is added before the last activation.
    fn residual(&self, parts: &[Tensor<5>]) -> Option<Tensor<5>> {
        let Some(conv) = &self.conv3 else { return self.is_residual.then(|| parts[0].clone()) };
        // A convolution of one voxel is cheaper to compute again than its result is to hold.
        let layers = (conv.clone(), self.norm3.clone());
        Some(recompute(&layers, parts.to_vec(), |(conv, norm), parts: Vec<Tensor<5>>| {
            Norm::normed(norm.as_ref(), of_parts(conv, &parts))
        }))
    }

    /// The same in stages.
    fn append_parts(&self, stages: &mut Stages, parts: &[(Volume, usize)]) -> Volume {
        let channels = self.conv1.convolution().weight.dims()[0];
        let residual = match &self.conv3 {
            None => self.is_residual.then(|| parts[0].0),
            Some(conv) => {
                let x = parts_in_stages(conv, stages, parts);
                let (x, entry) = Norm::entry(self.norm3.as_ref(), stages, x, channels);
                Some(stages.entry(x, entry, None))
            }
        };
        let h = parts_in_stages(&self.conv1, stages, parts);
        let (h, entry) = Norm::entry(self.norm1.as_ref(), stages, h, channels);
        let h = stages.entry_conv3d(h, entry.with_activation(ACTIVATION), self.conv2.convolution(), None);
        let (h, entry) = Norm::entry(self.norm2.as_ref(), stages, h, channels);
        match residual {
            None => stages.entry(h, entry.with_activation(ACTIVATION), None),
            Some(residual) => {
                let sum = stages.entry(h, entry, Some(residual));
                stages.entry(sum, StageEntry::default().with_activation(ACTIVATION), None)
            }
        }
    }
}

impl InStages for UnetBlock {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        let channels = self.conv1.convolution().weight.dims()[1];
        Ok(self.append_parts(stages, &[(x, channels)]))
    }
}

/// The convolution of volumes as if they were one, their channels one behind the other: what it is of each, and what is added to it.
fn apart_by_channels(conv: &Conv3d, channels: impl Iterator<Item = usize>) -> impl Iterator<Item = Convolution> {
    let Convolution { weight, mut bias, options } = conv.convolution();
    let mut first = 0;
    channels.map(move |channels| {
        let is_all = channels == weight.dims()[1];
        let part = if is_all { weight.clone() } else { weight.clone().narrow(1, first, channels) };
        first += channels;
        Convolution { weight: part, bias: bias.take(), options: options.clone() }
    })
}

/// The convolution of volumes as if they were one.
fn of_parts(conv: &Conv3d, parts: &[Tensor<5>]) -> Tensor<5> {
    let convolutions = apart_by_channels(conv, parts.iter().map(|part| part.dims()[1]));
    let mut sum: Option<Tensor<5>> = None;
    for (part, convolution) in parts.iter().zip(convolutions) {
        sum = Some(match sum.take() {
            None => conv3d(part.clone(), convolution),
            sum => norm_act_conv3d(part.clone(), None, Activation::None, convolution, sum),
        });
    }
    sum.expect("a convolution has an input")
}

/// The same in stages, of volumes with so many channels each.
fn parts_in_stages(conv: &Conv3d, stages: &mut Stages, parts: &[(Volume, usize)]) -> Volume {
    let convolutions = apart_by_channels(conv, parts.iter().map(|(_, channels)| *channels));
    let sum = parts.iter().zip(convolutions).fold(None, |sum, ((part, _), convolution)| {
        Some(stages.entry_conv3d(*part, StageEntry::default(), convolution, sum))
    });
    sum.expect("a convolution has an input")
}

/// Configuration of [`UnetUpBlock`].
#[derive(Config, Debug)]
pub struct UnetUpBlockConfig {
    /// The block behind the transposed convolution: from the channels below to those of the skip connection, which it gives too.
    pub block: UnetBlockConfig,
    /// By what the transposed convolution makes each axis larger.
    #[config(default = "[2; 3]")]
    pub factors: [usize; 3],
    /// Whether the transposed convolution has a bias.
    #[config(default = false)]
    pub bias: bool,
}

impl UnetUpBlockConfig {
    /// Makes the block.
    pub fn init(&self, device: &Device) -> UnetUpBlock {
        let (channels, initializer) = (self.block.channels, self.block.initializer.as_ref());
        let block = UnetBlockConfig { channels: [2 * channels[1], channels[1]], ..self.block.clone() };
        UnetUpBlock {
            transp_conv: ConvTranspose3d::enlarging(channels, self.factors, (self.bias, initializer), device),
            conv_block: block.init(device),
        }
    }
}

/// A transposed convolution that enlarges the volume, joined with a skip connection by a block: MONAI's `UnetUpBlock`, and its
/// `UnetrUpBlock` where the block is residual.
///
/// # Memory
///
/// Saved for backward: both inputs, the enlarged one, what the first two convolutions give, and the output.
#[derive(Module, Debug)]
pub struct UnetUpBlock {
    transp_conv: ConvTranspose3d,
    conv_block: UnetBlock,
}

impl UnetUpBlock {
    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - `below`: `[batch_size, channels_in, depth, height, width]`
    /// - `skip` and output: `[batch_size, channels_out, ..]`, each axis times its factor
    pub fn forward(&self, below: Tensor<5>, skip: Tensor<5>) -> Tensor<5> {
        self.conv_block.forward_parts(&[self.transp_conv.forward(below), apart(skip)])
    }

    /// What the block computes of `below` and `skip`, in stages.
    pub(crate) fn stages(&self) -> Stages {
        let mut stages = Stages::of_inputs(2);
        let mut inputs = stages.inputs();
        let (below, skip) = (inputs.next().expect("two inputs"), inputs.next().expect("two inputs"));
        let (weight, bias, options) = self.transp_conv.parameters();
        let channels = weight.dims()[1];
        let up = stages.conv_transpose3d(below, weight, bias, options, None);
        self.conv_block.append_parts(&mut stages, &[(up, channels), (skip, channels)]);
        stages
    }
}

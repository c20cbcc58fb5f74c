//! The convolutional blocks of nnU-Net and of UNETR.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, conv};
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Stages, Unstreamable, Volume, norm_act_conv3d, recompute};

use super::activation::Activation;
use super::conv::Conv3d;
use super::conv_transpose::ConvTranspose3d;
use super::norm::{Norm, NormConfig};
use super::norm_act::NormAct;
use super::parts::of_parts;
use crate::segmented::apart;
use crate::validation::Rules;

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
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        self.channels.iter().for_each(|channels| validation.count("channels", *channels));
        let even = self.kernel_size.iter().find(|size| size.is_multiple_of(2));
        even.into_iter().for_each(|size| validation.odd("kernel_size", *size));
        let reaches = |(kernel, stride): (&usize, &usize)| *stride > 0 && *stride <= kernel.saturating_add(1);
        validation.check_together(
            self.kernel_size.iter().zip(&self.stride).all(reaches),
            &["kernel_size"],
            "stride",
            "strides from 1 to one more than the kernel",
            format!("{:?} with a kernel of {:?}", self.stride, self.kernel_size),
            "use a larger kernel, or 2",
        );
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "channels", &self.channels[1..]);
        }
        validation.errors()
    }

    /// Makes the block.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> UnetBlock {
        panic_if_invalid("UnetBlock", &self.validate());
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
/// batch is no part of an operation: what the first one gives is held too. A model of such blocks leaves the last norm and activation to the
/// operations behind the block, and saves no output.
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
        self.left().forward(self.open(vec![apart(x)], &[NormAct::identity()]))
    }

    /// What a block leaves to those who use what it gives: its last activation, and the norm in front of it where that is part of their
    /// operations.
    pub(crate) fn left(&self) -> NormAct {
        let norm = self.norm2.clone().filter(|_| self.leaves_norm());
        NormAct::of_parts(norm, ACTIVATION)
    }

    fn leaves_norm(&self) -> bool {
        !self.is_residual && matches!(self.norm2, Some(Norm::Instance(_) | Norm::Group(_)))
    }

    /// What the block gives of volumes that leave something to it, as if they were one, their channels one behind the other; they are never
    /// copied into one.
    pub(crate) fn open(&self, parts: Vec<Tensor<5>>, entries: &[NormAct]) -> Tensor<5> {
        let residual = self.residual(&parts, entries);
        let h = of_open(&self.conv1, parts, entries);
        let (h, norm) = Norm::fold(self.norm1.as_ref(), h);
        let conv2 = self.conv2.convolution();
        match (&self.norm2, residual) {
            (None, residual) => norm_act_conv3d(h, norm, ACTIVATION.into(), conv2, residual),
            (second, residual) => {
                let h = norm_act_conv3d(h, norm, ACTIVATION.into(), conv2, None);
                let h = if self.leaves_norm() { h } else { Norm::normed(second.as_ref(), h) };
                residual.into_iter().fold(h, |h, residual| h + residual)
            }
        }
    }

    /// What is added before the last activation.
    fn residual(&self, parts: &[Tensor<5>], entries: &[NormAct]) -> Option<Tensor<5>> {
        let Some(conv) = &self.conv3 else { return self.is_residual.then(|| entries[0].forward(parts[0].clone())) };
        // A convolution of one voxel is cheaper to compute again than its result is to hold.
        let layers = (conv.clone(), self.norm3.clone(), entries.to_vec());
        Some(recompute(&layers, parts.to_vec(), |(conv, norm, entries), parts: Vec<Tensor<5>>| {
            Norm::normed(norm.as_ref(), of_open(conv, parts, entries))
        }))
    }

    /// What [`open`](Self::open) computes of one volume, in stages.
    pub(crate) fn stages(&self, entry: &NormAct) -> Result<Stages, Unstreamable> {
        let mut stages = Stages::new();
        let part = (stages.input(), self.conv1.convolution().weight.dims()[1], entry);
        self.append_parts(&mut stages, &[part])?;
        Ok(stages)
    }

    /// The same of volumes with so many channels each.
    fn append_parts(&self, stages: &mut Stages, parts: &[Part<'_>]) -> Result<(), Unstreamable> {
        let channels = self.conv1.convolution().weight.dims()[0];
        let residual = match &self.conv3 {
            None if self.is_residual => {
                let (x, channels, entry) = parts[0];
                let (x, entry) = entry.in_stages(stages, x, channels)?;
                Some(stages.entry(x, entry, None))
            }
            None => None,
            Some(conv) => {
                let x = parts_in_stages(conv, stages, parts)?;
                let (x, entry) = Norm::entry(self.norm3.as_ref(), stages, x, channels);
                Some(stages.entry(x, entry, None))
            }
        };
        let h = parts_in_stages(&self.conv1, stages, parts)?;
        let (h, entry) = Norm::entry(self.norm1.as_ref(), stages, h, channels);
        let h = stages.entry_conv3d(h, entry.with_activation(ACTIVATION.into()), self.conv2.convolution(), None);
        if !self.leaves_norm() {
            let (h, entry) = Norm::entry(self.norm2.as_ref(), stages, h, channels);
            stages.entry(h, entry, residual);
        }
        Ok(())
    }
}

/// The convolution of volumes, behind what they leave to it.
fn of_open(conv: &Conv3d, parts: Vec<Tensor<5>>, entries: &[NormAct]) -> Tensor<5> {
    let channels: Vec<usize> = parts.iter().map(|part| part.dims()[1]).collect();
    let parts = parts.into_iter().zip(entries).zip(of_parts(conv.convolution(), &channels));
    let sum = parts.fold(None, |sum, ((part, entry), convolution)| Some(entry.then_conv3d(part, convolution, sum)));
    sum.expect("a convolution has an input")
}

/// A volume, how many channels it has, and what it leaves to be done.
type Part<'a> = (Volume, usize, &'a NormAct);

/// The same in stages.
fn parts_in_stages(conv: &Conv3d, stages: &mut Stages, parts: &[Part<'_>]) -> Result<Volume, Unstreamable> {
    let channels: Vec<usize> = parts.iter().map(|(_, channels, _)| *channels).collect();
    let convolutions = of_parts(conv.convolution(), &channels);
    let sum = parts.iter().zip(convolutions).try_fold(None, |sum, ((x, channels, entry), convolution)| {
        let (x, entry) = entry.in_stages(stages, *x, *channels)?;
        Ok(Some(stages.entry_conv3d(x, entry, convolution, sum)))
    })?;
    Ok(sum.expect("a convolution has an input"))
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
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("block", self.block.validate());
        let is_strided = self.block.stride != [1; 3];
        validation.check(!is_strided, "block.stride", "1", format!("{:?}", self.block.stride), "leave it out");
        self.factors.iter().for_each(|factor| validation.count("factors", *factor));
        validation.errors()
    }

    /// Makes the block.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> UnetUpBlock {
        panic_if_invalid("UnetUpBlock", &self.validate());
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
        self.left().forward(self.open([below, skip], [&NormAct::identity(), &NormAct::identity()]))
    }

    /// What the block [leaves](UnetBlock::left) to those who use what it gives.
    pub(crate) fn left(&self) -> NormAct {
        self.conv_block.left()
    }

    /// What the block gives of two volumes, `below` and `skip`, that leave something to it.
    pub(crate) fn open(&self, [below, skip]: [Tensor<5>; 2], [of_below, of_skip]: [&NormAct; 2]) -> Tensor<5> {
        let up = self.transp_conv.forward(of_below.forward(below));
        self.conv_block.open(vec![up, apart(skip)], &[NormAct::identity(), of_skip.clone()])
    }

    /// What [`open`](Self::open) computes, in stages.
    pub(crate) fn stages(&self, [of_below, of_skip]: [&NormAct; 2]) -> Result<Stages, Unstreamable> {
        let mut stages = Stages::of_inputs(2);
        let mut inputs = stages.inputs();
        let (below, skip) = (inputs.next().expect("two inputs"), inputs.next().expect("two inputs"));
        let (weight, bias, options) = self.transp_conv.parameters();
        let [channels_in, channels, ..] = weight.dims();
        let (below, entry) = of_below.in_stages(&mut stages, below, channels_in)?;
        let below = stages.entry(below, entry, None);
        let up = stages.conv_transpose3d(below, weight, bias, options, None);
        let parts = [(up, channels, &NormAct::identity()), (skip, channels, of_skip)];
        self.conv_block.append_parts(&mut stages, &parts)?;
        Ok(stages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let valid = || UnetBlockConfig::new([2, 4]);
        assert!(UnetUpBlockConfig::new(valid()).validate().is_empty());
        assert_eq!(keys(UnetBlockConfig::new([2, 0]).validate()), ["channels"]);
        assert_eq!(keys(valid().with_kernel_size([3, 2, 3]).validate()), ["kernel_size"]);
        for stride in [[0, 1, 1], [1, 1, 5]] {
            assert_eq!(keys(valid().with_stride(stride).validate()), ["stride"]);
        }
        assert_eq!(keys(valid().with_norm(NormConfig::Group(3)).validate()), ["norm"]);
        let up = |block| keys(UnetUpBlockConfig::new(block).with_factors([2, 0, 2]).validate());
        assert_eq!(up(valid().with_stride([2; 3])), ["block.stride", "factors"]);
        assert_eq!(up(UnetBlockConfig::new([0, 4])), ["block.channels", "factors"]);
    }
}

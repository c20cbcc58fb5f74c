//! What encoder and decoder are made of.

use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use leanburn_ops::{Activation, Stages, Unstreamable, Volume, norm_act_conv3d};

use crate::blocks::{Conv3d, Conv3dConfig, ConvTranspose3d, ConvTranspose3dConfig, InStages};

/// One block of the chain. A ReLU follows each of them but the last of encoder and decoder.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum VqBlock {
    /// Convolution.
    Conv(VqConv),
    /// Residual unit.
    Residual(VqResidual),
    /// Transposed convolution.
    Transposed(VqTransposed),
}

impl VqBlock {
    /// Applies the block to `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let relu_if = |relu, y| if relu { activation::relu(y) } else { y };
        match self {
            Self::Conv(VqConv { conv, relu }) => relu_if(*relu, conv.forward(x)),
            Self::Transposed(VqTransposed { conv, relu }) => relu_if(*relu, conv.forward(x)),
            Self::Residual(block) => block.forward(x),
        }
    }
}

impl InStages for VqBlock {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        let relu_if = |stages: &mut Stages, relu, y| match relu {
            true => stages.norm_act(y, None, Activation::Relu, None),
            false => y,
        };
        Ok(match self {
            Self::Conv(VqConv { conv, relu }) => {
                let y = stages.conv3d(x, conv.convolution());
                relu_if(stages, *relu, y)
            }
            Self::Transposed(VqTransposed { conv, relu }) => {
                let (weight, bias, options) = conv.parameters();
                let y = stages.conv_transpose3d(x, weight, bias, options, None);
                relu_if(stages, *relu, y)
            }
            Self::Residual(VqResidual { conv1, conv2 }) => {
                let h = stages.conv3d(x, conv1.convolution());
                let y = stages.norm_act_conv3d(h, None, Activation::Relu, conv2.convolution(), Some(x));
                relu_if(stages, true, y)
            }
        })
    }
}

/// Convolution, and a ReLU or none.
#[derive(Module, Debug)]
pub struct VqConv {
    pub(super) conv: Conv3d,
    pub(super) relu: bool,
}

/// Transposed convolution, and a ReLU or none.
#[derive(Module, Debug)]
pub struct VqTransposed {
    pub(super) conv: ConvTranspose3d,
    pub(super) relu: bool,
}

/// `relu(x + conv2(relu(conv1(x))))`.
///
/// # Memory
///
/// Saved for backward: the input, the result of the first convolution, and the output.
#[derive(Module, Debug)]
pub struct VqResidual {
    conv1: Conv3d,
    conv2: Conv3d,
}

impl VqResidual {
    pub(super) fn new(channels: usize, hidden: usize, device: &Device) -> Self {
        let conv = |channels| Conv3dConfig::new(channels, 3).with_padding(1).init(device);
        Self { conv1: conv([channels, hidden]), conv2: conv([hidden, channels]) }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let h = self.conv1.forward(x.clone());
        activation::relu(norm_act_conv3d(h, None, Activation::Relu, self.conv2.convolution(), Some(x)))
    }
}

/// A convolution that changes the size of the volume: stride, kernel size, dilation, padding.
pub(super) fn downsample(channels: [usize; 2], options: [usize; 4], device: &Device) -> VqBlock {
    let [stride, kernel_size, dilation, padding] = options;
    let conv = Conv3dConfig::new(channels, kernel_size).with_stride(stride).with_dilation(dilation);
    VqBlock::Conv(VqConv { conv: conv.with_padding(padding).init(device), relu: true })
}

/// A 3x3x3 convolution without a ReLU.
pub(super) fn plain(channels: [usize; 2], device: &Device) -> VqBlock {
    let conv = Conv3dConfig::new(channels, 3).with_padding(1).init(device);
    VqBlock::Conv(VqConv { conv, relu: false })
}

/// A transposed convolution: stride, kernel size, dilation, padding, output padding.
pub(super) fn upsample(channels: [usize; 2], options: [usize; 5], relu: bool, device: &Device) -> VqBlock {
    let [stride, kernel_size, dilation, padding, padding_out] = options;
    let conv = ConvTranspose3dConfig::new(channels, kernel_size, stride).with_dilation(dilation);
    let conv = conv.with_padding(padding).with_padding_out(padding_out).init(device);
    VqBlock::Transposed(VqTransposed { conv, relu })
}

//! The blocks of encoder and decoder.

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_ops::{Activation, Stages, Unstreamable, Volume, norm_act_conv3d};

use crate::blocks::{AttentionBlock, Conv3d, Downsample, GroupNorm, InStages, ResBlock, Upsample};

/// One block of a chain.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum Block {
    /// The first convolution.
    Conv(Conv3d),
    /// Residual block.
    Res(ResBlock),
    /// Attention over all positions.
    Attention(AttentionBlock),
    /// Halves the volume.
    Downsample(Downsample),
    /// Doubles the volume.
    Upsample(Upsample),
    /// The last norm and convolution.
    Out(Out),
}

/// Group norm, an activation or none, then a 3x3x3 convolution.
#[derive(Module, Debug)]
pub struct Out {
    pub(in crate::models) final_norm: GroupNorm,
    pub(in crate::models) final_conv: Conv3d,
    #[module(skip)]
    pub(in crate::models) activation: Activation,
}

impl Block {
    /// Applies the block to `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Conv(block) => block.forward(x),
            Self::Res(block) => block.forward(x),
            Self::Attention(block) => block.forward(x),
            Self::Downsample(block) => block.forward(x),
            Self::Upsample(block) => block.forward(x),
            Self::Out(block) => block.forward(x),
        }
    }
}

impl Out {
    /// Applies norm, activation and convolution to `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (norm, convolution) = (self.final_norm.norm(), self.final_conv.convolution());
        norm_act_conv3d(x, Some(norm), self.activation, convolution, None)
    }
}

impl InStages for Block {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        match self {
            Self::Conv(block) => Ok(stages.conv3d(x, block.convolution())),
            Self::Res(block) => block.append_to(stages, x),
            Self::Attention(_) => Err(Unstreamable::new("it has attention, which sees the whole volume")),
            Self::Downsample(block) => block.append_to(stages, x),
            Self::Upsample(block) => block.append_to(stages, x),
            Self::Out(block) => {
                let (norm, convolution) = (block.final_norm.norm(), block.final_conv.convolution());
                Ok(stages.norm_act_conv3d(x, Some(norm), block.activation, convolution, None))
            }
        }
    }
}

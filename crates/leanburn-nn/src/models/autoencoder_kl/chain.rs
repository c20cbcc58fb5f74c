//! The blocks of encoder and decoder, and how they follow each other.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, norm_act_conv3d};

use super::config::AutoencoderKlConfig;
use crate::blocks::{
    AttentionBlock, AttentionBlockConfig, Conv3d, Conv3dConfig, Downsample, GroupNorm, GroupNormConfig, ResBlock,
    ResBlockConfig, Upsample,
};
use crate::models::chain::Chain;

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
            Self::Out(block) => {
                let (norm, convolution) = (block.final_norm.norm(), block.final_conv.convolution());
                norm_act_conv3d(x, Some(norm), block.activation, convolution, None)
            }
        }
    }
}

/// Puts a chain together, keeping track of the channels.
pub(super) struct ChainBuilder<'a> {
    config: &'a AutoencoderKlConfig,
    device: &'a Device,
    prefix: &'static str,
    channels: usize,
    chain: Chain<Block>,
}

impl<'a> ChainBuilder<'a> {
    /// Starts at a level with a convolution from `channels[0]` to `channels[1]`.
    pub(super) fn new(
        prefix: &'static str,
        first_level: usize,
        channels: [usize; 2],
        config: &'a AutoencoderKlConfig,
        device: &'a Device,
    ) -> Self {
        let conv = Conv3dConfig::new(channels, 3).with_padding(1).init(device);
        let mut builder = Self { config, device, prefix, channels: channels[1], chain: Chain::new() };
        builder.begin(first_level);
        builder.push("conv_in", Block::Conv(conv));
        builder
    }

    /// What follows belongs to this level.
    fn begin(&mut self, level: usize) {
        self.chain.begin(format!("{}.level_{level}", self.prefix));
    }

    fn push(&mut self, name: &str, block: Block) {
        self.chain.push(format!("{}.{name}", self.prefix), block);
    }

    fn res(&mut self, name: &str, channels_out: usize) {
        let block = ResBlockConfig::new([self.channels, channels_out], self.config.norm_num_groups)
            .with_norm_eps(self.config.norm_eps)
            .init(self.device);
        self.channels = channels_out;
        self.push(name, Block::Res(block));
    }

    fn attention(&mut self, name: &str) {
        let block = AttentionBlockConfig::new(self.channels, self.config.norm_num_groups)
            .with_norm_eps(self.config.norm_eps)
            .with_include_fc(self.config.include_fc)
            .with_use_combined_linear(self.config.use_combined_linear)
            .with_block(self.config.attention_block)
            .init(self.device);
        self.push(name, Block::Attention(block));
    }

    /// The residual blocks of a level, and attention after each where the level has it.
    pub(super) fn level(&mut self, level: usize) {
        for block in 0..self.config.num_res_blocks[level] {
            self.res(&format!("level_{level}.res_{block}"), self.config.channels[level]);
            if self.config.attention_levels[level] {
                self.attention(&format!("level_{level}.attention_{block}"));
            }
        }
    }

    /// Residual block, attention, residual block.
    pub(super) fn middle(&mut self) {
        self.res("middle.res_0", self.channels);
        self.attention("middle.attention");
        self.res("middle.res_1", self.channels);
    }

    /// Halves the volume; the next level starts from the small one.
    pub(super) fn downsample(&mut self, level: usize) {
        let block = Downsample::new(self.channels, self.device);
        self.push(&format!("level_{level}.downsample"), Block::Downsample(block));
        self.begin(level + 1);
    }

    /// Doubles the volume; the next level starts from the small one.
    pub(super) fn upsample(&mut self, level: usize) {
        self.begin(level - 1);
        let block = match self.config.use_convtranspose {
            true => Upsample::transposed(self.channels, self.device),
            false => Upsample::nearest(self.channels, self.device),
        };
        self.push(&format!("level_{level}.upsample"), Block::Upsample(block));
    }

    /// Ends with norm and convolution.
    pub(super) fn out(mut self, channels_out: usize) -> Chain<Block> {
        let (channels, device) = (self.channels, self.device);
        let norm = GroupNormConfig::new(self.config.norm_num_groups, channels).with_epsilon(self.config.norm_eps);
        let out = Out {
            final_norm: norm.init(device),
            final_conv: Conv3dConfig::new([channels, channels_out], 3).with_padding(1).init(device),
            activation: Activation::None,
        };
        self.push("out", Block::Out(out));
        self.chain
    }
}

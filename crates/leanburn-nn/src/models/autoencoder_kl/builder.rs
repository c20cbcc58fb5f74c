//! Puts a chain of blocks together, for models whose levels are made of these blocks.

use burn::tensor::Device;
use leanburn_ops::Activation;

use super::block::{Block, Out};
use crate::blocks::{AttentionBlockConfig, Conv3dConfig, Downsample, GroupNormConfig, ResBlockConfig};
use crate::models::chain::Chain;

/// A chain in the making, which keeps track of the channels.
pub(in crate::models) struct ChainBuilder<'a> {
    device: &'a Device,
    prefix: &'static str,
    /// Channels of what the last block gives.
    channels: usize,
    norm_num_groups: usize,
    norm_eps: f64,
    chain: Chain<Block>,
}

impl<'a> ChainBuilder<'a> {
    /// Starts at a level with a convolution from `channels[0]` to `channels[1]`. Norms have so many groups, and such an epsilon.
    pub(in crate::models) fn new(
        prefix: &'static str,
        first_level: usize,
        channels: [usize; 2],
        (norm_num_groups, norm_eps): (usize, f64),
        device: &'a Device,
    ) -> Self {
        let conv = Conv3dConfig::new(channels, 3).with_padding(1).init(device);
        let mut builder =
            Self { device, prefix, channels: channels[1], norm_num_groups, norm_eps, chain: Chain::new() };
        builder.begin(first_level);
        builder.push("conv_in", Block::Conv(conv));
        builder
    }

    /// Channels of what the last block gives.
    pub(in crate::models) fn channels(&self) -> usize {
        self.channels
    }

    /// What follows belongs to this level.
    pub(in crate::models) fn begin(&mut self, level: usize) {
        self.chain.begin(format!("{}.level_{level}", self.prefix));
    }

    /// A block of its own.
    pub(in crate::models) fn push(&mut self, name: &str, block: Block) {
        self.chain.push(format!("{}.{name}", self.prefix), block);
    }

    /// A convolution that divides each axis by its stride.
    pub(in crate::models) fn downsample(&mut self, name: &str, channels_out: usize, strides: [usize; 3]) {
        let channels = [std::mem::replace(&mut self.channels, channels_out), channels_out];
        self.push(name, Block::Downsample(Downsample::strided(channels, strides, self.device)));
    }

    /// A residual block.
    pub(in crate::models) fn res(&mut self, name: &str, channels_out: usize) {
        let channels = [std::mem::replace(&mut self.channels, channels_out), channels_out];
        let block = ResBlockConfig::new(channels, self.norm_num_groups).with_norm_eps(self.norm_eps);
        self.push(name, Block::Res(block.init(self.device)));
    }

    /// Attention, with what `with` changes of its configuration.
    pub(in crate::models) fn attention(
        &mut self,
        name: &str,
        with: impl FnOnce(AttentionBlockConfig) -> AttentionBlockConfig,
    ) {
        let block = AttentionBlockConfig::new(self.channels, self.norm_num_groups).with_norm_eps(self.norm_eps);
        self.push(name, Block::Attention(with(block).init(self.device)));
    }

    /// Ends with norm, an activation or none, and convolution, whose bias starts from these numbers if there are any.
    pub(in crate::models) fn out(
        mut self,
        channels_out: usize,
        activation: Activation,
        bias: Option<Vec<f32>>,
    ) -> Chain<Block> {
        let (channels, device) = (self.channels, self.device);
        let conv = Conv3dConfig::new([channels, channels_out], 3).with_padding(1);
        let norm = GroupNormConfig::new(self.norm_num_groups, channels).with_epsilon(self.norm_eps);
        let out = Out { final_norm: norm.init(device), final_conv: conv.init_from(bias, device), activation };
        self.push("out", Block::Out(out));
        self.chain
    }
}

//! Encoder and decoder as chains of blocks.

use burn::tensor::Device;
use leanburn_ops::Activation;

use super::config::Vae3dConfig;
use crate::blocks::{AttentionBlockConfig, Conv3dConfig, Downsample, GroupNormConfig, ResBlockConfig, Upsample};
use crate::models::autoencoder_kl::{Block, Out};
use crate::models::chain::Chain;

/// Convolution, levels from fine to coarse with a strided convolution between them, middle, out.
pub(super) fn encoder(config: &Vae3dConfig, channels_out: usize, device: &Device) -> Chain<Block> {
    let last = config.channel_mult.len() - 1;
    let mut chain = Builder::new("encoder", 0, [config.in_channels, config.base_channels], config, device);
    for level in 0..=last {
        chain.level(level, config.num_res_blocks);
        if let Some(strides) = config.strides.get(level) {
            let block = Downsample::strided(chain.channels, *strides, device);
            chain.push(&format!("level_{level}.downsample"), Block::Downsample(block));
            chain.begin(level + 1);
        }
    }
    chain.middle();
    chain.out(channels_out)
}

/// Convolution, middle, levels from coarse to fine with an enlargement between them, out.
///
/// Levels are numbered as in the encoder: level 0 is the finest and runs last.
pub(super) fn decoder(config: &Vae3dConfig, device: &Device) -> Chain<Block> {
    let last = config.channel_mult.len() - 1;
    let mut chain = Builder::new("decoder", last, [config.latent_channels, config.channels(last)], config, device);
    chain.middle();
    for level in (0..=last).rev() {
        chain.level(level, config.num_res_blocks + 1);
        if let Some(factors) = config.strides.get(last - level) {
            let block = Upsample::trilinear(chain.channels, *factors, device);
            chain.begin(level - 1);
            chain.push(&format!("level_{level}.upsample"), Block::Upsample(block));
        }
    }
    chain.out(config.in_channels)
}

/// Puts a chain together, keeping track of the channels.
struct Builder<'a> {
    config: &'a Vae3dConfig,
    device: &'a Device,
    prefix: &'static str,
    channels: usize,
    chain: Chain<Block>,
}

impl<'a> Builder<'a> {
    /// Starts at a level with a convolution from `channels[0]` to `channels[1]`.
    fn new(
        prefix: &'static str,
        level: usize,
        channels: [usize; 2],
        config: &'a Vae3dConfig,
        device: &'a Device,
    ) -> Self {
        let conv = Conv3dConfig::new(channels, 3).with_padding(1).init(device);
        let mut builder = Self { config, device, prefix, channels: channels[1], chain: Chain::new() };
        builder.begin(level);
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
        let channels = [std::mem::replace(&mut self.channels, channels_out), channels_out];
        let block = ResBlockConfig::new(channels, self.config.norm_num_groups).with_norm_eps(self.config.norm_eps);
        self.push(name, Block::Res(block.init(self.device)));
    }

    fn attention(&mut self, name: &str) {
        let block = AttentionBlockConfig::new(self.channels, self.config.norm_num_groups);
        let block = block.with_norm_eps(self.config.norm_eps).init(self.device);
        self.push(name, Block::Attention(block));
    }

    /// The residual blocks of a level, with attention at the coarsest.
    fn level(&mut self, level: usize, blocks: usize) {
        let attention = self.config.attention && level + 1 == self.config.channel_mult.len();
        for block in 0..blocks {
            self.res(&format!("level_{level}.res_{block}"), self.config.channels(level));
            if attention {
                self.attention(&format!("level_{level}.attention_{block}"));
            }
        }
    }

    /// Two residual blocks, attention between them.
    fn middle(&mut self) {
        self.res("middle.res_0", self.channels);
        if self.config.attention {
            self.attention("middle.attention");
        }
        self.res("middle.res_1", self.channels);
    }

    /// Ends with norm, SiLU and convolution.
    fn out(mut self, channels_out: usize) -> Chain<Block> {
        let (channels, device) = (self.channels, self.device);
        let norm = GroupNormConfig::new(self.config.norm_num_groups, channels).with_epsilon(self.config.norm_eps);
        let out = Out {
            final_norm: norm.init(device),
            final_conv: Conv3dConfig::new([channels, channels_out], 3).with_padding(1).init(device),
            activation: Activation::Silu,
        };
        self.push("out", Block::Out(out));
        self.chain
    }
}

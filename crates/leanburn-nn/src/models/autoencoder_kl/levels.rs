//! Levels, middle and end, as encoder and decoder have them.

use burn::tensor::Device;
use leanburn_ops::Activation;

use super::block::Block;
use super::builder::ChainBuilder;
use super::config::AutoencoderKlConfig;
use crate::blocks::{AttentionBlockConfig, Downsample, Upsample};
use crate::models::chain::Chain;

/// Encoder or decoder in the making.
pub(super) struct Levels<'a> {
    config: &'a AutoencoderKlConfig,
    device: &'a Device,
    chain: ChainBuilder<'a>,
}

impl<'a> Levels<'a> {
    /// Starts at a level with a convolution from `channels[0]` to `channels[1]`.
    pub(super) fn new(
        prefix: &'static str,
        first_level: usize,
        channels: [usize; 2],
        config: &'a AutoencoderKlConfig,
        device: &'a Device,
    ) -> Self {
        let norm = (config.norm_num_groups, config.norm_eps);
        Self { config, device, chain: ChainBuilder::new(prefix, first_level, channels, norm, device) }
    }

    fn attention(&mut self, name: &str) {
        let config = self.config;
        self.chain.attention(name, |block: AttentionBlockConfig| {
            block
                .with_include_fc(config.include_fc)
                .with_use_combined_linear(config.use_combined_linear)
                .with_block(config.attention_block)
        });
    }

    /// The residual blocks of a level, and attention after each where the level has it.
    pub(super) fn level(&mut self, level: usize) {
        for block in 0..self.config.num_res_blocks[level] {
            self.chain.res(&format!("level_{level}.res_{block}"), self.config.channels[level]);
            if self.config.attention_levels[level] {
                self.attention(&format!("level_{level}.attention_{block}"));
            }
        }
    }

    /// Residual block, attention, residual block.
    pub(super) fn middle(&mut self) {
        let channels = self.chain.channels();
        self.chain.res("middle.res_0", channels);
        self.attention("middle.attention");
        self.chain.res("middle.res_1", channels);
    }

    /// Halves the volume; the next level starts from the small one.
    pub(super) fn downsample(&mut self, level: usize) {
        let block = Downsample::new(self.chain.channels(), self.device);
        self.chain.push(&format!("level_{level}.downsample"), Block::Downsample(block));
        self.chain.begin(level + 1);
    }

    /// Doubles the volume; the next level starts from the small one.
    pub(super) fn upsample(&mut self, level: usize) {
        self.chain.begin(level - 1);
        let channels = self.chain.channels();
        let block = match self.config.use_convtranspose {
            true => Upsample::transposed(channels, self.device),
            false => Upsample::nearest(channels, self.device),
        };
        self.chain.push(&format!("level_{level}.upsample"), Block::Upsample(block));
    }

    /// Ends with norm and convolution.
    pub(super) fn out(self, channels_out: usize) -> Chain<Block> {
        self.chain.out(channels_out, Activation::None, None)
    }
}

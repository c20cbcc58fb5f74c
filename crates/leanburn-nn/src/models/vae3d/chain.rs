//! Encoder and decoder as chains of blocks.

use burn::tensor::Device;
use leanburn_ops::Activation;

use super::config::Vae3dConfig;
use crate::blocks::Upsample;
use crate::models::autoencoder_kl::{Block, ChainBuilder, log_variances};
use crate::models::chain::Chain;

/// Convolution, levels from fine to coarse with a strided convolution between them, middle, out.
///
/// A Gaussian latent has twice its channels: means, then logarithms of variances.
pub(super) fn encoder(config: &Vae3dConfig, device: &Device) -> Chain<Block> {
    let last = config.channel_mult.len() - 1;
    // Where no residual block changes the channels, the convolutions between the levels do.
    let blocks = config.num_res_blocks;
    let first = if blocks == 0 { config.channels(0) } else { config.base_channels };
    let mut levels = Levels::new("encoder", 0, [config.in_channels, first], config, device);
    for level in 0..=last {
        levels.level(level, blocks);
        if let Some(strides) = config.strides.get(level) {
            let channels = config.channels(if blocks == 0 { level + 1 } else { level });
            levels.chain.downsample(&format!("level_{level}.downsample"), channels, *strides);
            levels.chain.begin(level + 1);
        }
    }
    levels.middle();
    let latent = config.latent_channels;
    if config.codebook.is_some() {
        return levels.out(latent, None);
    }
    let bias = config.initial_deviation.map(|deviation| {
        let means = [0.0].repeat(latent);
        [means, log_variances(deviation, latent)].concat()
    });
    levels.out(2 * latent, bias)
}

/// Convolution, middle, levels from coarse to fine with an enlargement between them, out.
///
/// Levels are numbered as in the encoder: level 0 is the finest and runs last.
pub(super) fn decoder(config: &Vae3dConfig, device: &Device) -> Chain<Block> {
    let last = config.channel_mult.len() - 1;
    let mut levels = Levels::new("decoder", last, [config.latent_channels, config.channels(last)], config, device);
    levels.middle();
    for level in (0..=last).rev() {
        levels.level(level, config.num_res_blocks + 1);
        if let Some(factors) = config.strides.get(last - level) {
            let block = Upsample::trilinear(levels.chain.channels(), *factors, device);
            levels.chain.begin(level - 1);
            levels.chain.push(&format!("level_{level}.upsample"), Block::Upsample(block));
        }
    }
    levels.out(config.in_channels, None)
}

/// Encoder or decoder in the making.
struct Levels<'a> {
    config: &'a Vae3dConfig,
    chain: ChainBuilder<'a>,
}

impl<'a> Levels<'a> {
    /// Starts at a level with a convolution from `channels[0]` to `channels[1]`.
    fn new(
        prefix: &'static str,
        level: usize,
        channels: [usize; 2],
        config: &'a Vae3dConfig,
        device: &'a Device,
    ) -> Self {
        let norm = (config.norm_num_groups, config.norm_eps);
        Self { config, chain: ChainBuilder::new(prefix, level, channels, norm, device) }
    }

    /// The residual blocks of a level, with attention at the coarsest.
    fn level(&mut self, level: usize, blocks: usize) {
        let attention = self.config.attention && level + 1 == self.config.channel_mult.len();
        for block in 0..blocks {
            self.chain.res(&format!("level_{level}.res_{block}"), self.config.channels(level));
            if attention {
                self.chain.attention(&format!("level_{level}.attention_{block}"), |block| block);
            }
        }
    }

    /// Two residual blocks, attention between them.
    fn middle(&mut self) {
        let channels = self.chain.channels();
        self.chain.res("middle.res_0", channels);
        if self.config.attention {
            self.chain.attention("middle.attention", |block| block);
        }
        self.chain.res("middle.res_1", channels);
    }

    /// Ends with norm, SiLU and convolution.
    fn out(self, channels_out: usize, bias: Option<Vec<f32>>) -> Chain<Block> {
        self.chain.out(channels_out, Activation::Silu, bias)
    }
}

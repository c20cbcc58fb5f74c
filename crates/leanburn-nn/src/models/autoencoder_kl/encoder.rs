//! From a volume to the features of its latent.

use burn::tensor::Device;

use super::block::Block;
use super::config::AutoencoderKlConfig;
use super::levels::Levels;
use crate::models::chain::Chain;

/// The encoder: convolution, levels from fine to coarse with a halving between them, non-local attention, out.
pub(super) fn encoder(config: &AutoencoderKlConfig, device: &Device) -> Chain<Block> {
    let mut chain = Levels::new("encoder", 0, [config.in_channels, config.channels[0]], config, device);
    let last = config.channels.len() - 1;
    for level in 0..=last {
        chain.level(level);
        if level < last {
            chain.downsample(level);
        }
    }
    if config.encoder_nonlocal_attn {
        chain.middle();
    }
    chain.out(config.latent_channels)
}

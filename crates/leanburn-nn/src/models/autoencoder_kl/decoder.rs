//! From a latent to a volume.

use burn::tensor::Device;

use super::block::Block;
use super::config::AutoencoderKlConfig;
use super::levels::Levels;
use crate::models::chain::Chain;

/// The decoder: convolution, non-local attention, levels from coarse to fine with a doubling between them, out.
///
/// Levels are numbered as in the encoder: level 0 is the finest and runs last.
pub(super) fn decoder(config: &AutoencoderKlConfig, device: &Device) -> Chain<Block> {
    let last = config.channels.len() - 1;
    let mut chain = Levels::new("decoder", last, [config.latent_channels, config.channels[last]], config, device);
    if config.decoder_nonlocal_attn {
        chain.middle();
    }
    for level in (0..=last).rev() {
        chain.level(level);
        if level > 0 {
            chain.upsample(level);
        }
    }
    chain.out(config.out_channels)
}

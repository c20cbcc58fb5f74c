//! The `autoencoder` section: MONAI's `AutoencoderKL` in three dimensions.
//!
//! Keys and meanings follow
//! [`monai.networks.nets.AutoencoderKL`](https://docs.monai.io/en/stable/networks.html#autoencoderkl).

use serde::Serialize;

use super::limits::{MANY, POSITIVE};
use super::objective::AutoencoderObjectiveSection;
use super::reader::Section;
use super::training::Training;
use super::values::PerLevel;

/// The autoencoder and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AutoencoderSection {
    /// Channels of the input volumes. Default: 1.
    pub in_channels: usize,
    /// Channels of the reconstruction. Default: 1.
    pub out_channels: usize,
    /// Channels of each level, from full resolution down; each level but the last halves the
    /// resolution. Required; also called `channels`, its name in newer versions of MONAI.
    pub num_channels: Vec<usize>,
    /// Channels of the latent volume. Default: 3.
    pub latent_channels: usize,
    /// Residual blocks of each level; one number stands for all levels. Default: 2 (MONAI's).
    pub num_res_blocks: Vec<usize>,
    /// Groups of the group normalization; must divide every entry of `num_channels`. Default: 32.
    pub norm_num_groups: usize,
    /// Added to the variance by the group normalization. Default: 1e-6.
    pub norm_eps: f64,
    /// Which levels have self-attention after their residual blocks. Default: none.
    pub attention_levels: Vec<bool>,
    /// Self-attention in the middle of the encoder. Default: false, where MONAI's is true: its
    /// cost grows with the square of the voxels at the lowest resolution.
    pub with_encoder_nonlocal_attn: bool,
    /// Self-attention in the middle of the decoder. Default: false, where MONAI's is true.
    pub with_decoder_nonlocal_attn: bool,
    /// Upsample by transposed convolutions, not by nearest neighbours and a convolution.
    /// Default: false.
    pub use_convtranspose: bool,
    /// A linear layer after each attention. Default: true.
    pub include_fc: bool,
    /// Query, key and value by one linear layer. Default: false.
    pub use_combined_linear: bool,
    /// How it is trained.
    pub training: Training<AutoencoderObjectiveSection>,
}

impl AutoencoderSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        section.alias("channels", "num_channels");
        let num_channels: Vec<usize> = section.required("num_channels", 1..=MANY);
        let levels = num_channels.len();
        Self {
            in_channels: section.number("in_channels", 1, 1..=MANY),
            out_channels: section.number("out_channels", 1, 1..=MANY),
            num_channels,
            latent_channels: section.number("latent_channels", 3, 1..=MANY),
            num_res_blocks: section.number("num_res_blocks", PerLevel::All(2), 1..=MANY).resolve(levels),
            norm_num_groups: section.number("norm_num_groups", 32, 1..=MANY),
            norm_eps: section.number("norm_eps", 1e-6, POSITIVE),
            attention_levels: section.get("attention_levels", PerLevel::All(false)).resolve(levels),
            with_encoder_nonlocal_attn: section.get("with_encoder_nonlocal_attn", false),
            with_decoder_nonlocal_attn: section.get("with_decoder_nonlocal_attn", false),
            use_convtranspose: section.get("use_convtranspose", false),
            include_fc: section.get("include_fc", true),
            use_combined_linear: section.get("use_combined_linear", false),
            training: section.section("training", |section| Training::read(section, AutoencoderObjectiveSection::read)),
        }
    }
}

//! The `autoencoder` section: MONAI's `AutoencoderKL` in three dimensions.
//!
//! Keys and meanings follow
//! [`monai.networks.nets.AutoencoderKL`](https://docs.monai.io/en/stable/networks.html#autoencoderkl).

use leanburn_nn::models::AutoencoderKlConfig;
use serde::Serialize;

use super::objective::AutoencoderObjectiveSection;
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, POSITIVE, PerLevel, Section};

/// The autoencoder and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
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

/// Whether an autoencoder of a configuration has self-attention in its middle where nothing is said.
///
/// MONAI has it, and so does [`AutoencoderKlConfig`]. Its cost grows with the square of the voxels at the lowest resolution:
/// at the 256x256x64 voxels of the high-resolution guide and three levels these are 65,536, and most of a step's time would be attention.
const NONLOCAL_ATTENTION: bool = false;

impl AutoencoderSection {
    /// An autoencoder with these channels a level, from full resolution down, and every default.
    pub fn new(num_channels: Vec<usize>) -> Self {
        let levels = num_channels.len();
        Self {
            in_channels: 1,
            out_channels: 1,
            num_channels,
            latent_channels: 3,
            num_res_blocks: vec![2; levels],
            norm_num_groups: 32,
            norm_eps: 1e-6,
            attention_levels: vec![false; levels],
            with_encoder_nonlocal_attn: NONLOCAL_ATTENTION,
            with_decoder_nonlocal_attn: NONLOCAL_ATTENTION,
            use_convtranspose: false,
            include_fc: true,
            use_combined_linear: false,
            training: Training::default(),
        }
    }

    pub(super) fn read_keys(section: &mut Section<'_>) -> Self {
        section.alias("channels", "num_channels");
        let default = Self::new(section.required("num_channels", 1..=MANY));
        let levels = default.num_channels.len();
        let attention = PerLevel::Each(default.attention_levels);
        Self {
            in_channels: section.number("in_channels", default.in_channels, 1..=MANY),
            out_channels: section.number("out_channels", default.out_channels, 1..=MANY),
            num_channels: default.num_channels,
            latent_channels: section.number("latent_channels", default.latent_channels, 1..=MANY),
            num_res_blocks: section
                .number("num_res_blocks", PerLevel::Each(default.num_res_blocks), 1..=MANY)
                .resolve(levels),
            norm_num_groups: section.number("norm_num_groups", default.norm_num_groups, 1..=MANY),
            norm_eps: section.number("norm_eps", default.norm_eps, POSITIVE),
            attention_levels: section.get("attention_levels", attention).resolve(levels),
            with_encoder_nonlocal_attn: section.get("with_encoder_nonlocal_attn", default.with_encoder_nonlocal_attn),
            with_decoder_nonlocal_attn: section.get("with_decoder_nonlocal_attn", default.with_decoder_nonlocal_attn),
            use_convtranspose: section.get("use_convtranspose", default.use_convtranspose),
            include_fc: section.get("include_fc", default.include_fc),
            use_combined_linear: section.get("use_combined_linear", default.use_combined_linear),
            training: section.section("training", |section| Training::read(section, AutoencoderObjectiveSection::read)),
        }
    }

    /// The configuration of the model.
    pub fn model(&self) -> AutoencoderKlConfig {
        AutoencoderKlConfig::new(self.num_channels.clone(), self.num_res_blocks.clone(), self.attention_levels.clone())
            .with_in_channels(self.in_channels)
            .with_out_channels(self.out_channels)
            .with_latent_channels(self.latent_channels)
            .with_norm_num_groups(self.norm_num_groups)
            .with_norm_eps(self.norm_eps)
            .with_encoder_nonlocal_attn(self.with_encoder_nonlocal_attn)
            .with_decoder_nonlocal_attn(self.with_decoder_nonlocal_attn)
            .with_use_convtranspose(self.use_convtranspose)
            .with_include_fc(self.include_fc)
            .with_use_combined_linear(self.use_combined_linear)
            .with_initial_deviation(self.training.objective.initial_deviation)
            .with_attention_block(self.training.objective.attention_block)
    }

    /// Whether the model has attention anywhere.
    pub(super) fn attends(&self) -> bool {
        self.attention_levels.contains(&true) || self.attends_in_the_middle()
    }

    /// Whether the model has attention at its lowest resolution, between the levels.
    pub(super) fn attends_in_the_middle(&self) -> bool {
        self.with_encoder_nonlocal_attn || self.with_decoder_nonlocal_attn
    }
}

with_methods! { AutoencoderSection {
    with_in_channels => in_channels: usize,
    with_out_channels => out_channels: usize,
    with_latent_channels => latent_channels: usize,
    with_num_res_blocks => num_res_blocks: Vec<usize>,
    with_norm_num_groups => norm_num_groups: usize,
    with_norm_eps => norm_eps: f64,
    with_attention_levels => attention_levels: Vec<bool>,
    with_encoder_nonlocal_attn => with_encoder_nonlocal_attn: bool,
    with_decoder_nonlocal_attn => with_decoder_nonlocal_attn: bool,
    with_use_convtranspose => use_convtranspose: bool,
    with_include_fc => include_fc: bool,
    with_use_combined_linear => use_combined_linear: bool,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: AutoencoderObjectiveSection,
} }

//! The `vqvae` section.

use leanburn_nn::models::VqVae3dConfig;
use serde::Serialize;

use crate::shared::{CodebookSection, Training, TrainingSection, VoxelObjectiveSection, with_methods};
use crate::yaml::{MANY, PerLevel, Section};

/// The discrete autoencoder and its training: MONAI's `VQVAE` in three dimensions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VqVaeSection {
    /// Channels of the volumes. Default: 1.
    pub in_channels: usize,
    /// Channels of each level, the finest first; each level halves the resolution. Required.
    pub channels: Vec<usize>,
    /// Channels inside the residual units of each level; one number stands for all levels. Default: those of the last level.
    pub num_res_channels: Vec<usize>,
    /// Residual units of each level. Default: 1.
    pub num_res_layers: usize,
    /// Channels of the latent and of each vector of the codebook. Default: 16.
    pub embedding_dim: usize,
    /// The codebook.
    pub codebook: CodebookSection,
    /// How it is trained.
    pub training: Training<VoxelObjectiveSection>,
}

with_methods! { VqVaeSection {
    with_in_channels => in_channels: usize,
    with_num_res_channels => num_res_channels: Vec<usize>,
    with_num_res_layers => num_res_layers: usize,
    with_embedding_dim => embedding_dim: usize,
    with_codebook => codebook: CodebookSection,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: VoxelObjectiveSection,
} }

impl VqVaeSection {
    /// An autoencoder with these channels a level, the finest first, and every default.
    pub fn new(channels: Vec<usize>) -> Self {
        let last = channels.last().copied().unwrap_or(1);
        Self {
            in_channels: 1,
            num_res_channels: vec![last; channels.len()],
            channels,
            num_res_layers: 1,
            embedding_dim: 16,
            codebook: CodebookSection::default(),
            training: Training::default(),
        }
    }

    pub(super) fn read_keys(section: &mut Section<'_>) -> Self {
        section.alias("num_channels", "channels");
        let default = Self::new(section.required("channels", 1..=MANY));
        let levels = default.channels.len();
        Self {
            in_channels: section.number("in_channels", default.in_channels, 1..=MANY),
            channels: default.channels,
            num_res_channels: section
                .number("num_res_channels", PerLevel::Each(default.num_res_channels), 1..=MANY)
                .resolve(levels),
            num_res_layers: section.number("num_res_layers", default.num_res_layers, 0..=MANY),
            embedding_dim: section.number("embedding_dim", default.embedding_dim, 1..=MANY),
            codebook: section.section("codebook", CodebookSection::read),
            training: section.section("training", |section| Training::read(section, VoxelObjectiveSection::read)),
        }
    }

    /// The configuration of the model.
    pub fn model(&self) -> VqVae3dConfig {
        let codebook = self.codebook.quantizer(self.embedding_dim);
        VqVae3dConfig::new(self.channels.clone(), self.num_res_channels.clone(), codebook)
            .with_num_res_layers(self.num_res_layers)
            .with_in_channels(self.in_channels)
            .with_out_channels(self.in_channels)
    }
}

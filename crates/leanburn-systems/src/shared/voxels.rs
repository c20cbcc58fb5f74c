//! The sections `vae3d` and `vqvae`: autoencoders of voxels.

use leanburn_nn::losses::{Difference, OccupancyWeight};
use serde::{Deserialize, Serialize};

use super::limits::{MANY, POSITIVE};
use super::objective::PerceptualSection;
use super::reader::Section;
use super::training::Training;
use super::values::PerLevel;

/// The sizes of the radar guide's autoencoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VaeType {
    /// Channels 64, 128, 256, two residual blocks a level, attention.
    Standard,
    /// Channels 32, 64, 128, one residual block a level.
    Lightweight,
    /// Channels 16, 32, 32, one residual block a level.
    UltraLightweight,
}

/// The voxel autoencoder and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Vae3dSection {
    /// Its size. Default: ultra_lightweight.
    pub vae_type: VaeType,
    /// Channels of the volumes. Default: 4, those of a radar scene.
    pub in_channels: usize,
    /// Channels of the latent. Default: 4.
    pub latent_channels: usize,
    /// A codebook in place of the Gaussian latent. Default: none.
    pub codebook: Option<CodebookSection>,
    /// How it is trained.
    pub training: Training<Vae3dObjectiveSection>,
}

/// The discrete autoencoder and its training: MONAI's `VQVAE` in three dimensions.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// A codebook: each position of the latent becomes the nearest of its vectors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodebookSection {
    /// Vectors of the codebook. Default: 64.
    pub num_embeddings: usize,
    /// Weight of the commitment loss. Default: 0.25.
    pub commitment_cost: f64,
    /// How much of the running averages stays in a step. Default: 0.99.
    pub decay: f64,
    /// Vectors used less than this share of the average start again where the latent is. Default: none do.
    pub restart_below: Option<f64>,
}

/// The losses of the voxel autoencoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Vae3dObjectiveSection {
    /// How voxels are compared.
    #[serde(flatten)]
    pub voxels: VoxelObjectiveSection,
    /// Weight of the Kullback-Leibler divergence, averaged over the latent. Default: 1e-6.
    pub kl_weight: f64,
    /// The perceptual loss.
    #[serde(flatten)]
    pub perceptual: PerceptualSection,
}

/// How voxels are compared with those of the input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VoxelObjectiveSection {
    /// The loss between reconstruction and input. Default: l2.
    pub reconstruction_loss: Difference,
    /// What an occupied voxel counts where an empty one counts 1. Default: 1.
    pub occupancy_weight: f64,
    /// A voxel is occupied where its absolute value is above this, in the loss and in the metrics. Default: 0.5.
    pub occupancy_threshold: f64,
}

impl Vae3dSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            vae_type: section.choice("vae_type", VaeType::UltraLightweight),
            in_channels: section.number("in_channels", 4, 1..=MANY),
            latent_channels: section.number("latent_channels", 4, 1..=MANY),
            codebook: section.optional("codebook", CodebookSection::read),
            training: section.section("training", |section| Training::read(section, Vae3dObjectiveSection::read)),
        }
    }
}

impl VqVaeSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        section.alias("num_channels", "channels");
        let channels: Vec<usize> = section.required("channels", 1..=MANY);
        let (levels, last) = (channels.len(), channels.last().copied().unwrap_or(1));
        Self {
            in_channels: section.number("in_channels", 1, 1..=MANY),
            channels,
            num_res_channels: section.number("num_res_channels", PerLevel::All(last), 1..=MANY).resolve(levels),
            num_res_layers: section.number("num_res_layers", 1, 0..=MANY),
            embedding_dim: section.number("embedding_dim", 16, 1..=MANY),
            codebook: section.section("codebook", CodebookSection::read),
            training: section.section("training", |section| Training::read(section, VoxelObjectiveSection::read)),
        }
    }
}

impl CodebookSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            num_embeddings: section.number("num_embeddings", 64, 1..=MANY),
            commitment_cost: section.number("commitment_cost", 0.25, 0..),
            decay: section.number("decay", 0.99, 0..1),
            restart_below: section.number("restart_below", None, 0..1),
        }
    }
}

impl Vae3dObjectiveSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            voxels: VoxelObjectiveSection::read(section),
            kl_weight: section.number("kl_weight", 1e-6, 0..),
            perceptual: PerceptualSection::read(section),
        }
    }
}

impl VoxelObjectiveSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            reconstruction_loss: section.choice("reconstruction_loss", Difference::L2),
            occupancy_weight: section.number("occupancy_weight", 1.0, POSITIVE),
            occupancy_threshold: section.number("occupancy_threshold", 0.5, 0..),
        }
    }

    /// How much more an occupied voxel counts, if it does.
    pub fn occupancy(&self) -> Option<OccupancyWeight> {
        let weight = OccupancyWeight { threshold: self.occupancy_threshold, weight: self.occupancy_weight };
        (self.occupancy_weight != 1.0).then_some(weight)
    }
}

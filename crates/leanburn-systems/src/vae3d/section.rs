//! The `vae3d` section.

use leanburn_nn::losses::VaeLoss;
use leanburn_nn::models::Vae3dConfig;
use serde::{Deserialize, Serialize};

use crate::shared::{
    CodebookSection, PerceptualSection, Training, TrainingSection, VoxelObjectiveSection, with_methods,
};
use crate::yaml::{MANY, POSITIVE, Section};

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

impl VaeType {
    /// All of them, the largest first.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Lightweight, Self::UltraLightweight];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Lightweight => "lightweight",
            Self::UltraLightweight => "ultra_lightweight",
        }
    }
}

/// The voxel autoencoder and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vae3dSection {
    /// Its size. Default: ultra_lightweight.
    pub vae_type: VaeType,
    /// Residual blocks of each level of the encoder; the decoder has one more. Default: none, those of the size.
    pub num_res_blocks: Option<usize>,
    /// Channels of the volumes. Default: 4, those of a radar scene.
    pub in_channels: usize,
    /// Channels of the latent. Default: 4.
    pub latent_channels: usize,
    /// A codebook in place of the Gaussian latent. Default: none.
    pub codebook: Option<CodebookSection>,
    /// How it is trained.
    pub training: Training<Vae3dObjectiveSection>,
}

/// The losses of the voxel autoencoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vae3dObjectiveSection {
    /// How voxels are compared.
    #[serde(flatten)]
    pub voxels: VoxelObjectiveSection,
    /// Weight of the Kullback-Leibler divergence, averaged over the latent. Default: 1e-6.
    pub kl_weight: f64,
    /// The deviation of the latent that training starts from, or nearly. Default: none, what random weights give, about 1.
    pub initial_deviation: Option<f64>,
    /// The perceptual loss.
    #[serde(flatten)]
    pub perceptual: PerceptualSection,
}

impl Default for Vae3dSection {
    fn default() -> Self {
        Self {
            vae_type: VaeType::UltraLightweight,
            num_res_blocks: None,
            in_channels: 4,
            latent_channels: 4,
            codebook: None,
            training: Training::default(),
        }
    }
}

impl Default for Vae3dObjectiveSection {
    fn default() -> Self {
        Self {
            voxels: VoxelObjectiveSection::default(),
            kl_weight: 1e-6,
            initial_deviation: None,
            perceptual: PerceptualSection::default(),
        }
    }
}

with_methods! { Vae3dSection {
    with_num_res_blocks => num_res_blocks: Option<usize>,
    with_in_channels => in_channels: usize,
    with_latent_channels => latent_channels: usize,
    with_codebook => codebook: Option<CodebookSection>,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: Vae3dObjectiveSection,
} }

with_methods! { Vae3dObjectiveSection {
    with_voxels => voxels: VoxelObjectiveSection,
    with_kl_weight => kl_weight: f64,
    with_initial_deviation => initial_deviation: Option<f64>,
    with_perceptual => perceptual: PerceptualSection,
} }

impl Vae3dSection {
    /// An autoencoder of a size, with every default.
    pub fn new(vae_type: VaeType) -> Self {
        Self { vae_type, ..Self::default() }
    }

    pub(super) fn read_keys(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            vae_type: section.choice("vae_type", default.vae_type),
            num_res_blocks: section.number("num_res_blocks", default.num_res_blocks, 0..=MANY),
            in_channels: section.number("in_channels", default.in_channels, 1..=MANY),
            latent_channels: section.number("latent_channels", default.latent_channels, 1..=MANY),
            codebook: section.optional("codebook", CodebookSection::read),
            training: section.section("training", |section| Training::read(section, Vae3dObjectiveSection::read)),
        }
    }

    /// The configuration of the model.
    pub fn model(&self) -> Vae3dConfig {
        let codebook = self.codebook.as_ref().map(|codebook| codebook.quantizer(self.latent_channels));
        let size = match self.vae_type {
            VaeType::Standard => Vae3dConfig::standard(),
            VaeType::Lightweight => Vae3dConfig::lightweight(),
            VaeType::UltraLightweight => Vae3dConfig::ultra_lightweight(),
        };
        let num_res_blocks = self.num_res_blocks.unwrap_or(size.num_res_blocks);
        Vae3dConfig { num_res_blocks, ..size }
            .with_in_channels(self.in_channels)
            .with_latent_channels(self.latent_channels)
            .with_initial_deviation(self.training.objective.initial_deviation)
            .with_codebook(codebook)
    }
}

impl Vae3dObjectiveSection {
    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            voxels: VoxelObjectiveSection::read(section),
            kl_weight: section.number("kl_weight", default.kl_weight, 0..),
            initial_deviation: section.number("initial_deviation", default.initial_deviation, POSITIVE),
            perceptual: PerceptualSection::read(section),
        }
    }

    /// The loss of the model, without the perceptual one.
    pub fn loss(&self) -> VaeLoss {
        VaeLoss { voxels: self.voxels.loss(), beta: self.kl_weight }
    }
}

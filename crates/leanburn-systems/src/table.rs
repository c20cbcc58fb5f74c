//! Which system a configuration trains: the one whose section is there.

use leanburn_data::SequenceConfig;
use serde::Serialize;

use super::autoencoder::AutoencoderSection;
use super::forecaster::{ForecasterSection, read_sequence};
use super::objective::PerceptualSection;
use super::reader::Section;
use super::training::TrainingSection;
use super::voxels::{Vae3dSection, VqVaeSection};

/// The system that is trained; in YAML a section of its own name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(clippy::large_enum_variant, reason = "a configuration has one")]
pub enum SystemSection {
    /// MONAI's KL autoencoder.
    #[serde(rename = "autoencoder")]
    Autoencoder(AutoencoderSection),
    /// The voxel autoencoder.
    #[serde(rename = "vae3d")]
    Vae3d(Vae3dSection),
    /// The discrete autoencoder.
    #[serde(rename = "vqvae")]
    VqVae(VqVaeSection),
    /// A forecaster of fields.
    #[serde(rename = "forecaster")]
    Forecaster(ForecasterSection),
}

/// The names of the sections.
pub(super) const SYSTEMS: [&str; 4] = ["autoencoder", "vae3d", "vqvae", "forecaster"];

impl SystemSection {
    /// Reads the section that is there, and `sequence` where that is a forecaster's; the autoencoder's where none is.
    pub(super) fn read(section: &mut Section<'_>) -> (Self, Option<SequenceConfig>) {
        if section.has("autoencoder") {
            return (Self::Autoencoder(section.section("autoencoder", AutoencoderSection::read)), None);
        }
        if section.has("vae3d") {
            return (Self::Vae3d(section.section("vae3d", Vae3dSection::read)), None);
        }
        if section.has("vqvae") {
            return (Self::VqVae(section.section("vqvae", VqVaeSection::read)), None);
        }
        if section.has("forecaster") {
            let sequence = section.section("sequence", read_sequence);
            let system = section.section("forecaster", |section| ForecasterSection::read(section, &sequence));
            return (Self::Forecaster(system), Some(sequence));
        }
        (Self::Autoencoder(section.section("autoencoder", AutoencoderSection::read)), None)
    }

    /// The name of its section.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Autoencoder(_) => "autoencoder",
            Self::Vae3d(_) => "vae3d",
            Self::VqVae(_) => "vqvae",
            Self::Forecaster(_) => "forecaster",
        }
    }

    /// How it is trained.
    pub fn training(&self) -> &TrainingSection {
        match self {
            Self::Autoencoder(section) => &section.training.common,
            Self::Vae3d(section) => &section.training.common,
            Self::VqVae(section) => &section.training.common,
            Self::Forecaster(section) => &section.training.common,
        }
    }

    /// Its perceptual loss, where a system can have one.
    pub fn perceptual(&self) -> Option<&PerceptualSection> {
        match self {
            Self::Autoencoder(section) => Some(&section.training.objective.perceptual),
            Self::Vae3d(section) => Some(&section.training.objective.perceptual),
            Self::VqVae(_) | Self::Forecaster(_) => None,
        }
    }

    /// How it is trained, to change.
    pub fn training_mut(&mut self) -> &mut TrainingSection {
        match self {
            Self::Autoencoder(section) => &mut section.training.common,
            Self::Vae3d(section) => &mut section.training.common,
            Self::VqVae(section) => &mut section.training.common,
            Self::Forecaster(section) => &mut section.training.common,
        }
    }
}

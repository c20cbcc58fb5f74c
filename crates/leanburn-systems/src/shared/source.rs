//! What a system finds around its own section: the data, the device, the seed.

use std::any::Any;
use std::path::Path;

use burn::tensor::Device;
use leanburn_data::{DataConfig, SceneConfig, SequenceConfig};

use super::device_section::DeviceSection;
use super::latents_section::LatentsSection;
use super::sequence_section::first_channel;
use crate::codec::Codec;
use crate::error::Result;

/// What a system is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Volumes, the section `data`.
    Volumes,
    /// A sequence of fields, the section `sequence`.
    Fields,
    /// Latents of volumes, the sections `latents` and `data`.
    Latents,
    /// Road scenes, the section `scenes`.
    Scenes,
}

impl Source {
    /// The name of the section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Volumes => "data",
            Self::Fields => "sequence",
            Self::Latents => "latents",
            Self::Scenes => "scenes",
        }
    }

    /// What is held in memory, in a word.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Fields => "fields",
            Self::Latents => "latents",
            Self::Scenes => "scenes",
        }
    }

    /// The key that has samples read again, in place of held in memory.
    pub fn read_key(self) -> &'static str {
        match self {
            Self::Latents => "latents.folder",
            other => other.cache_key(),
        }
    }

    /// The key that makes what is held in memory smaller.
    pub fn cache_key(self) -> &'static str {
        match self {
            Self::Volumes => "data.cache_rate",
            Self::Fields => "sequence.downsample",
            Self::Latents => "latents.samples_per_volume",
            Self::Scenes => "scenes.prefetch",
        }
    }
}

/// A trained model that another stage is trained with: an autoencoder whose latents it is trained on, a teacher.
#[derive(Debug)]
pub struct FirstStage {
    /// The autoencoder; none if the model of the run is not one.
    pub codec: Option<Codec>,
    /// The volumes that it was trained on.
    pub data: DataConfig,
    /// The section of its system.
    pub system: Box<dyn Any>,
}

/// Opens the first stage of these weights, by the configuration in the same folder, on a device without autodiff.
pub type OpenFirstStage = fn(&Path, &Device) -> Result<FirstStage>;

/// The parts of a configuration other than its system.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Where the configuration is from, for messages.
    pub name: &'a str,
    /// The seed of all randomness.
    pub seed: u64,
    /// The volumes to train on.
    pub data: &'a DataConfig,
    /// The fields to train on, for systems of fields.
    pub sequence: Option<&'a SequenceConfig>,
    /// The latents to train on, for systems of latents.
    pub latents: Option<&'a LatentsSection>,
    /// The teacher of the model, its run or its weights.
    pub teacher: Option<&'a Path>,
    /// The scenes to train on, for systems of scenes.
    pub scenes: Option<&'a SceneConfig>,
    /// What opens a first stage by its weights.
    pub first_stage: OpenFirstStage,
    /// Samples of an epoch, once the data is open.
    pub samples: Option<usize>,
    /// What computes, and in which precision.
    pub device: &'a DeviceSection,
    /// Processes that train together, where a step is planned.
    pub planned_ranks: usize,
}

impl Context<'_> {
    /// The scenes to train on.
    pub(crate) fn scenes(&self) -> SceneConfig {
        self.scenes.cloned().unwrap_or_default()
    }

    /// The fields to train on, with the one channel that is predicted.
    pub(crate) fn fields(&self) -> SequenceConfig {
        let mut fields = self.sequence.cloned().unwrap_or_default();
        fields.target_channel = fields.target_channel.or(Some(first_channel(&fields.use_channels)));
        fields
    }
}

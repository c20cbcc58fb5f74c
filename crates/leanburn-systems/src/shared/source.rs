//! What a system finds around its own section: the data, the device, the seed.

use leanburn_data::{DataConfig, SequenceConfig};

use super::device_section::DeviceSection;
use super::sequence_section::first_channel;

/// What a system is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Volumes, the section `data`.
    Volumes,
    /// A sequence of fields, the section `sequence`.
    Fields,
}

impl Source {
    /// The name of the section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Volumes => "data",
            Self::Fields => "sequence",
        }
    }

    /// What is held in memory, in a word.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Fields => "fields",
        }
    }

    /// The key that makes what is held in memory smaller.
    pub fn cache_key(self) -> &'static str {
        match self {
            Self::Volumes => "data.cache_rate",
            Self::Fields => "sequence.downsample",
        }
    }
}

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
    /// What computes, and in which precision.
    pub device: &'a DeviceSection,
}

impl Context<'_> {
    /// The fields to train on, with the one channel that is predicted.
    pub(crate) fn fields(&self) -> SequenceConfig {
        let mut fields = self.sequence.cloned().unwrap_or_default();
        fields.target_channel = fields.target_channel.or(Some(first_channel(&fields.use_channels)));
        fields
    }
}

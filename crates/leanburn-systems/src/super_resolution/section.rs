//! The `super_resolution` section.

use leanburn_data::SequenceConfig;
use serde::Serialize;

use super::model::SuperResolverConfig;
use super::network::SuperResolutionNetwork;
use super::objective::SuperResolutionObjectiveSection;
use crate::diffusion::averaged_training;
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, Section};

/// A network that refines fields, and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuperResolutionSection {
    /// Channels of the coarse fields. Default: as many as `sequence.use_channels` names, or 1.
    pub in_channels: usize,
    /// How many times finer the result is. Default: `sequence.sample_factor`.
    pub upscale_factor: usize,
    /// Which network it is, `model`, and its keys.
    #[serde(flatten)]
    pub network: SuperResolutionNetwork,
    /// How it is trained.
    pub training: Training<SuperResolutionObjectiveSection>,
}

with_methods! { SuperResolutionSection {
    with_in_channels => in_channels: usize,
    with_upscale_factor => upscale_factor: usize,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: SuperResolutionObjectiveSection,
} }

impl SuperResolutionSection {
    /// A network that makes fields of one channel so many times finer, and every default.
    pub fn new(network: SuperResolutionNetwork, upscale_factor: usize) -> Self {
        let objective = SuperResolutionObjectiveSection::default();
        Self { in_channels: 1, upscale_factor, network, training: Training { common: averaged_training(), objective } }
    }

    pub(super) fn read_keys(section: &mut Section<'_>, sequence: &SequenceConfig) -> Self {
        let in_channels = sequence.use_channels.len().max(1);
        Self {
            in_channels: section.number("in_channels", in_channels, 1..=MANY),
            upscale_factor: section.number("upscale_factor", sequence.sample_factor, 1..=64),
            network: SuperResolutionNetwork::read(section),
            training: section.section("training", |section| {
                Training::read_from(section, averaged_training(), SuperResolutionObjectiveSection::read)
            }),
        }
    }

    /// The configuration of the model.
    pub fn model(&self) -> SuperResolverConfig {
        self.network.model(self.in_channels, self.upscale_factor)
    }

    /// Height and width of the fine field of a coarse one.
    pub(super) fn fine(&self, coarse: [usize; 2]) -> [usize; 2] {
        coarse.map(|length| length.saturating_mul(self.upscale_factor))
    }
}

//! The `diffusion` section: MONAI's `DiffusionModelUNet` in three dimensions, and how noise is added.

use leanburn_nn::models::DiffusionUNet3dConfig;
use serde::Serialize;

use super::consistency_section::ConsistencySection;
use super::objective::{DiffusionObjectiveSection, training};
use super::scheduler::{EdmSection, SamplingMethod, SchedulerSection};
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, POSITIVE, PerLevel, Section};

/// A diffusion model of latents, and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiffusionSection {
    /// Channels of the latents. Default: 3.
    pub in_channels: usize,
    /// Channels of what the network gives: those of the latents. Default: `in_channels`.
    pub out_channels: usize,
    /// Channels of each level, the finest first; each level but the last halves the resolution. Required; also called `channels`.
    pub num_channels: Vec<usize>,
    /// Residual blocks of each level on the way down; one number stands for all levels. Default: 2 (MONAI's).
    pub num_res_blocks: Vec<usize>,
    /// Which levels have attention. The middle of the network has it always. Default: none.
    pub attention_levels: Vec<bool>,
    /// Channels of an attention head, of each level or one number for all. Default: 8 (MONAI's).
    pub num_head_channels: Vec<usize>,
    /// Groups of the group normalization; must divide every entry of `num_channels`. Default: the most that do, 32 at most.
    pub norm_num_groups: usize,
    /// Added to the variance by the group normalization. Default: 1e-6.
    pub norm_eps: f64,
    /// Halve and enlarge by residual blocks, not by convolutions. Default: false.
    pub resblock_updown: bool,
    /// Probability of a value to be dropped in front of the second convolution of a residual block. Default: 0.
    pub dropout: f64,
    /// Classes of the data and one more, which stands for no class: the model makes volumes of a class then. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_class_embeds: Option<usize>,
    /// How noise is added.
    pub scheduler: SchedulerSection,
    /// The objective of a consistency model, which makes samples in one step. Default: none, a diffusion model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<ConsistencySection>,
    /// How it is trained.
    pub training: Training<DiffusionObjectiveSection>,
}

with_methods! { DiffusionSection {
    with_num_res_blocks => num_res_blocks: Vec<usize>,
    with_attention_levels => attention_levels: Vec<bool>,
    with_num_head_channels => num_head_channels: Vec<usize>,
    with_norm_num_groups => norm_num_groups: usize,
    with_norm_eps => norm_eps: f64,
    with_resblock_updown => resblock_updown: bool,
    with_dropout => dropout: f64,
    with_num_class_embeds => num_class_embeds: Option<usize>,
    with_scheduler => scheduler: SchedulerSection,
    with_consistency => consistency: Option<ConsistencySection>,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: DiffusionObjectiveSection,
} }

/// The most groups of a norm where nothing is said: MONAI's.
const MOST_GROUPS: usize = 32;

impl DiffusionSection {
    /// A U-Net of latents of so many channels with these channels a level, the finest first, and every default.
    pub fn new(in_channels: usize, num_channels: Vec<usize>) -> Self {
        let levels = num_channels.len();
        Self {
            in_channels,
            out_channels: in_channels,
            norm_num_groups: most_groups(&num_channels),
            num_channels,
            num_res_blocks: vec![2; levels],
            attention_levels: vec![false; levels],
            num_head_channels: vec![8],
            norm_eps: 1e-6,
            resblock_updown: false,
            dropout: 0.0,
            num_class_embeds: None,
            scheduler: SchedulerSection::default(),
            consistency: None,
            training: Training { common: training(), objective: DiffusionObjectiveSection::default() },
        }
    }

    pub(super) fn read_keys(section: &mut Section<'_>) -> Self {
        section.alias("channels", "num_channels");
        let in_channels = section.number("in_channels", 3, 1..=MANY);
        let default = Self::new(in_channels, section.required("num_channels", 1..=MANY));
        let levels = default.num_channels.len();
        let consistency = section.optional("consistency", ConsistencySection::read);
        let is_consistent = consistency.is_some();
        Self {
            out_channels: section.number("out_channels", default.out_channels, 1..=MANY),
            num_res_blocks: section
                .number("num_res_blocks", PerLevel::Each(default.num_res_blocks), 1..=MANY)
                .resolve(levels),
            attention_levels: section.get("attention_levels", PerLevel::Each(default.attention_levels)).resolve(levels),
            num_head_channels: section
                .number("num_head_channels", PerLevel::Each(default.num_head_channels), 0..=MANY)
                .resolve(1),
            norm_num_groups: section.number("norm_num_groups", default.norm_num_groups, 1..=MANY),
            norm_eps: section.number("norm_eps", default.norm_eps, POSITIVE),
            resblock_updown: section.get("resblock_updown", default.resblock_updown),
            dropout: section.number("dropout", default.dropout, 0..1),
            num_class_embeds: section.number("num_class_embeds", default.num_class_embeds, 2..=MANY),
            scheduler: section.section("scheduler", |section| SchedulerSection::read(section, is_consistent)),
            consistency,
            training: section.section("training", |section| {
                Training::read_from(section, training(), |section| {
                    DiffusionObjectiveSection::read(section, is_consistent)
                })
            }),
            ..default
        }
    }

    /// The ways to sample, the one that is taken where none is named first.
    pub fn methods(&self) -> &'static [SamplingMethod] {
        match self.consistency {
            Some(_) => &[
                SamplingMethod::Multistep,
                SamplingMethod::Heun,
                SamplingMethod::Euler,
                SamplingMethod::EulerAncestral,
            ],
            None => self.scheduler.methods(),
        }
    }

    /// The objective of a consistency model and the noise levels that it goes with, of a valid section.
    pub(super) fn consistent(&self) -> Option<(&ConsistencySection, &EdmSection)> {
        match (&self.consistency, &self.scheduler) {
            (Some(consistency), SchedulerSection::Edm(edm)) => Some((consistency, edm)),
            _ => None,
        }
    }

    /// The number that stands for no class, which is also how many classes there are; none of a model without classes.
    pub fn no_class(&self) -> Option<usize> {
        self.num_class_embeds.map(|embeds| embeds - 1)
    }

    /// The configuration of the model.
    pub fn model(&self) -> DiffusionUNet3dConfig {
        let (channels, blocks) = (self.num_channels.clone(), self.num_res_blocks.clone());
        let attention = self.attention_levels.clone();
        DiffusionUNet3dConfig::new(self.in_channels, self.out_channels, channels, blocks, attention)
            .with_num_head_channels(self.num_head_channels.clone())
            .with_norm_num_groups(self.norm_num_groups)
            .with_norm_eps(self.norm_eps)
            .with_resblock_updown(self.resblock_updown)
            .with_num_class_embeds(self.num_class_embeds)
            .with_dropout(self.dropout)
    }
}

/// The largest number up to [`MOST_GROUPS`] that divides all channels.
pub(crate) fn most_groups(channels: &[usize]) -> usize {
    let divides = |groups: &usize| channels.iter().all(|channels| channels.is_multiple_of(*groups));
    (1..=MOST_GROUPS).rev().find(divides).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The well-known small latent model, whose 16 channels MONAI's 32 groups do not divide.
    #[test]
    fn groups_are_the_most_that_divide_the_channels() {
        assert_eq!(most_groups(&[16, 32, 64]), 16);
        assert_eq!(most_groups(&[64, 128]), 32);
        assert_eq!(most_groups(&[24, 36]), 12);
        assert_eq!(most_groups(&[7, 8]), 1);
    }
}

//! Which network it is, and its keys.

use leanburn_nn::models::{Sr3Condition, Sr3UNetConfig};
use serde::{Deserialize, Serialize};

use crate::diffusion::{Betas, DdpmSection, most_groups};
use crate::shared::with_methods;
use crate::yaml::{MANY, PerLevel, Section};

/// The networks that there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuperResolutionNetwork {
    /// That of [SR3](https://arxiv.org/abs/2104.07636): it is told how much noise there is, and trained at any amount of it.
    Sr3(Sr3Section),
    /// That of [DDPM](https://arxiv.org/abs/2006.11239): it is told the time.
    Ddpm(Sr3Section),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    #[serde(alias = "SR3")]
    Sr3,
    #[serde(alias = "DDPM")]
    Ddpm,
}

/// The U-Net of a diffusion model of fields, and its noise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sr3Section {
    /// Channels in front of the first block, and waves of the noise level. Default: the first of `num_channels`.
    pub inner_channels: usize,
    /// Channels of each level, the finest first; each level but the last halves the resolution. Required; also called `channels`.
    pub num_channels: Vec<usize>,
    /// Which levels have attention; the middle of the network always has. Default: none.
    pub attention_levels: Vec<bool>,
    /// Blocks of each level on the way down. Default: 2.
    pub num_res_blocks: usize,
    /// Groups of the norms; must divide every entry of `num_channels`. Default: the most that do, 32 at most.
    pub norm_num_groups: usize,
    /// Probability of a value to be dropped in a block. Default: 0.
    pub dropout: f64,
    /// Whether noise scales the values of a block too. Default: false.
    pub use_affine_level: bool,
    /// How noise is added.
    pub scheduler: DdpmSection,
}

with_methods! { Sr3Section {
    with_inner_channels => inner_channels: usize,
    with_attention_levels => attention_levels: Vec<bool>,
    with_num_res_blocks => num_res_blocks: usize,
    with_norm_num_groups => norm_num_groups: usize,
    with_dropout => dropout: f64,
    with_use_affine_level => use_affine_level: bool,
    with_scheduler => scheduler: DdpmSection,
} }

impl SuperResolutionNetwork {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let name = section.variant("model", Name::Sr3);
        let unet = Sr3Section::read(section, name);
        match name {
            Name::Sr3 => Self::Sr3(unet),
            Name::Ddpm => Self::Ddpm(unet),
        }
    }

    /// The keys of the network.
    pub fn unet(&self) -> &Sr3Section {
        match self {
            Self::Sr3(unet) | Self::Ddpm(unet) => unet,
        }
    }

    /// The same network with other keys.
    pub(super) fn with_unet(&self, unet: Sr3Section) -> Self {
        match self {
            Self::Sr3(_) => Self::Sr3(unet),
            Self::Ddpm(_) => Self::Ddpm(unet),
        }
    }

    /// The configuration of the model for so many channels of the coarse field and one of the fine field.
    pub(super) fn model(&self, in_channels: usize) -> Sr3UNetConfig {
        let condition = match self {
            Self::Sr3(_) => Sr3Condition::NoiseLevel,
            Self::Ddpm(_) => Sr3Condition::Time,
        };
        let unet = self.unet().clone();
        let channels = [in_channels.saturating_add(1), 1, unet.inner_channels];
        Sr3UNetConfig::new(channels[0], channels[1], channels[2], unet.num_channels, unet.attention_levels)
            .with_num_res_blocks(unet.num_res_blocks)
            .with_norm_num_groups(unet.norm_num_groups)
            .with_dropout(unet.dropout)
            .with_use_affine_level(unet.use_affine_level)
            .with_condition(condition)
    }
}

impl Sr3Section {
    /// A U-Net of SR3 with these channels a level, the finest first, and every default.
    pub fn new(num_channels: Vec<usize>) -> Self {
        Self::of(Name::Sr3, num_channels)
    }

    fn of(name: Name, num_channels: Vec<usize>) -> Self {
        Self {
            inner_channels: num_channels.first().copied().unwrap_or(1),
            attention_levels: vec![false; num_channels.len()],
            num_res_blocks: 2,
            norm_num_groups: most_groups(&num_channels),
            dropout: 0.0,
            use_affine_level: false,
            scheduler: scheduler(name),
            num_channels,
        }
    }

    fn read(section: &mut Section<'_>, name: Name) -> Self {
        section.alias("channels", "num_channels");
        let default = Self::of(name, section.required("num_channels", 1..=MANY));
        let levels = default.num_channels.len();
        Self {
            inner_channels: section.number("inner_channels", default.inner_channels, 1..=MANY),
            attention_levels: section.get("attention_levels", PerLevel::Each(default.attention_levels)).resolve(levels),
            num_res_blocks: section.number("num_res_blocks", default.num_res_blocks, 1..=MANY),
            norm_num_groups: section.number("norm_num_groups", default.norm_num_groups, 1..=MANY),
            dropout: section.number("dropout", default.dropout, 0..1),
            use_affine_level: section.get("use_affine_level", default.use_affine_level),
            scheduler: section.section("scheduler", |section| DdpmSection::read_from(section, default.scheduler)),
            num_channels: default.num_channels,
        }
    }

    /// Half of the channels, and groups that divide them.
    pub(super) fn half(&self) -> Self {
        let num_channels = crate::system::half(&self.num_channels);
        let groups = most_groups(&num_channels).min(self.norm_num_groups);
        let inner_channels = self.inner_channels.div_ceil(2).next_multiple_of(2 * groups);
        Self { inner_channels, norm_num_groups: groups, num_channels, ..self.clone() }
    }
}

/// 2000 times, whose betas lie on a line to 0.02, from 1e-6 for SR3 and 1e-4 for DDPM.
fn scheduler(name: Name) -> DdpmSection {
    let beta_start = match name {
        Name::Sr3 => 1e-6,
        Name::Ddpm => 1e-4,
    };
    DdpmSection {
        num_train_timesteps: 2000,
        schedule: Betas::LinearBeta,
        beta_start,
        beta_end: 2e-2,
        ..DdpmSection::default()
    }
}

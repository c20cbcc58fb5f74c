//! Which network it is, and its keys.

use leanburn_nn::diffusion::DiffusionProcessConfig;
use leanburn_nn::models::{EdsrConfig, Sr3Condition, Sr3UNetConfig, UNet2dConfig};
use serde::{Deserialize, Serialize};

use super::model::SuperResolverConfig;
use crate::diffusion::{Betas, DdpmSection, most_groups};
use crate::shared::with_methods;
use crate::yaml::{MANY, POSITIVE, PerLevel, Section};

/// The networks that there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuperResolutionNetwork {
    /// That of [SR3](https://arxiv.org/abs/2104.07636): it is told how much noise there is, and trained at any amount of it.
    Sr3(Sr3Section),
    /// That of [DDPM](https://arxiv.org/abs/2006.11239): it is told the time.
    Ddpm(Sr3Section),
    /// [EDSR](https://arxiv.org/abs/1707.02921), which gives a fine field at once.
    Edsr(EdsrSection),
    /// DiffSR's `UNet2d`, which does too.
    Unet(UNet2dSection),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    #[serde(alias = "SR3")]
    Sr3,
    #[serde(alias = "DDPM")]
    Ddpm,
    #[serde(alias = "EDSR")]
    Edsr,
    #[serde(alias = "UNet2d")]
    Unet,
}

/// Residual blocks on the coarse grid, which is refined at the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EdsrSection {
    /// Channels inside. Default: 64.
    pub hidden_channels: usize,
    /// Residual blocks. Default: 16.
    pub num_res_blocks: usize,
}

with_methods! { EdsrSection {
    with_hidden_channels => hidden_channels: usize,
    with_num_res_blocks => num_res_blocks: usize,
} }

impl Default for EdsrSection {
    fn default() -> Self {
        Self { hidden_channels: 64, num_res_blocks: 16 }
    }
}

/// A U-Net of five levels on the fine grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UNet2dSection {
    /// Channels of the finest level; each below has twice as many. Default: 32.
    pub init_features: usize,
}

with_methods! { UNet2dSection {
    with_init_features => init_features: usize,
} }

impl Default for UNet2dSection {
    fn default() -> Self {
        Self { init_features: 32 }
    }
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
    /// Groups of the norms; must divide `inner_channels` and every entry of `num_channels`. Default: the most that do, 32 at most.
    pub norm_num_groups: usize,
    /// Probability of a value to be dropped in a block. Default: 0.
    pub dropout: f64,
    /// Whether noise scales the values of a block too. Default: false.
    pub use_affine_level: bool,
    /// How noise is added.
    pub scheduler: DdpmSection,
    /// The largest absolute value that a sample can have while it is made, in the units of the normalized fields. Default: 6, which fields of
    /// deviation 1 hardly reach.
    pub clip_sample_range: Option<f64>,
}

with_methods! { Sr3Section {
    with_inner_channels => inner_channels: usize,
    with_attention_levels => attention_levels: Vec<bool>,
    with_num_res_blocks => num_res_blocks: usize,
    with_norm_num_groups => norm_num_groups: usize,
    with_dropout => dropout: f64,
    with_use_affine_level => use_affine_level: bool,
    with_scheduler => scheduler: DdpmSection,
    with_clip_sample_range => clip_sample_range: Option<f64>,
} }

impl SuperResolutionNetwork {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        match section.variant("model", Name::Sr3) {
            Name::Sr3 => Self::Sr3(Sr3Section::read(section, Name::Sr3)),
            Name::Ddpm => Self::Ddpm(Sr3Section::read(section, Name::Ddpm)),
            Name::Edsr => {
                let EdsrSection { hidden_channels, num_res_blocks } = EdsrSection::default();
                Self::Edsr(EdsrSection {
                    hidden_channels: section.number("hidden_channels", hidden_channels, 1..=MANY),
                    num_res_blocks: section.number("num_res_blocks", num_res_blocks, 1..=MANY),
                })
            }
            Name::Unet => {
                let UNet2dSection { init_features } = UNet2dSection::default();
                Self::Unet(UNet2dSection { init_features: section.number("init_features", init_features, 1..=MANY) })
            }
        }
    }

    /// The U-Net of a diffusion model, and what it is told of the noise.
    pub fn diffusion(&self) -> Option<(&Sr3Section, Sr3Condition)> {
        match self {
            Self::Sr3(unet) => Some((unet, Sr3Condition::NoiseLevel)),
            Self::Ddpm(unet) => Some((unet, Sr3Condition::Time)),
            Self::Edsr(_) | Self::Unet(_) => None,
        }
    }

    /// The configuration of the model for so many channels of the coarse field and one of the fine field, so many times finer.
    pub(super) fn model(&self, in_channels: usize, upscale_factor: usize) -> SuperResolverConfig {
        match self {
            Self::Sr3(unet) | Self::Ddpm(unet) => {
                let condition = self.diffusion().map_or(Sr3Condition::default(), |(_, condition)| condition);
                SuperResolverConfig::Diffusion(unet.model(in_channels).with_condition(condition))
            }
            Self::Edsr(edsr) => SuperResolverConfig::Edsr(
                EdsrConfig::new(in_channels, 1, upscale_factor)
                    .with_hidden_channels(edsr.hidden_channels)
                    .with_num_res_blocks(edsr.num_res_blocks),
            ),
            Self::Unet(unet) => {
                let config = UNet2dConfig::new(in_channels, 1, upscale_factor);
                SuperResolverConfig::UNet(config.with_init_features(unet.init_features))
            }
        }
    }

    /// Half of the channels: what it is called, and the network with it. The same where they are as few as they can be.
    pub(super) fn half(&self) -> (String, Self) {
        match self {
            Self::Sr3(unet) | Self::Ddpm(unet) => {
                let half = unet.half();
                let text = format!("num_channels = {:?}", half.num_channels);
                (text, if matches!(self, Self::Sr3(_)) { Self::Sr3(half) } else { Self::Ddpm(half) })
            }
            Self::Edsr(edsr) => {
                let hidden_channels = edsr.hidden_channels.div_ceil(2);
                let half = EdsrSection { hidden_channels, ..edsr.clone() };
                (format!("hidden_channels = {hidden_channels}"), Self::Edsr(half))
            }
            Self::Unet(unet) => {
                let init_features = unet.init_features.div_ceil(2);
                (format!("init_features = {init_features}"), Self::Unet(UNet2dSection { init_features }))
            }
        }
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
            clip_sample_range: Some(6.0),
            num_channels,
        }
    }

    fn model(&self, in_channels: usize) -> Sr3UNetConfig {
        let (channels, attention) = (self.num_channels.clone(), self.attention_levels.clone());
        Sr3UNetConfig::new(in_channels.saturating_add(1), 1, self.inner_channels, channels, attention)
            .with_num_res_blocks(self.num_res_blocks)
            .with_norm_num_groups(self.norm_num_groups)
            .with_dropout(self.dropout)
            .with_use_affine_level(self.use_affine_level)
    }

    /// How noise is added, and where samples are clipped.
    pub(super) fn process(&self) -> DiffusionProcessConfig {
        self.scheduler.process().with_clip(self.clip_sample_range)
    }

    fn read(section: &mut Section<'_>, name: Name) -> Self {
        section.alias("channels", "num_channels");
        let default = Self::of(name, section.required("num_channels", 1..=MANY));
        let levels = default.num_channels.len();
        let inner_channels = section.number("inner_channels", default.inner_channels, 1..=MANY);
        let groups = most_groups(&[&[inner_channels], &default.num_channels[..]].concat());
        Self {
            inner_channels,
            attention_levels: section.get("attention_levels", PerLevel::Each(default.attention_levels)).resolve(levels),
            num_res_blocks: section.number("num_res_blocks", default.num_res_blocks, 1..=MANY),
            norm_num_groups: section.number("norm_num_groups", groups, 1..=MANY),
            dropout: section.number("dropout", default.dropout, 0..1),
            use_affine_level: section.get("use_affine_level", default.use_affine_level),
            scheduler: section.section("scheduler", |section| DdpmSection::read_from(section, default.scheduler)),
            clip_sample_range: section.number("clip_sample_range", default.clip_sample_range, POSITIVE),
            num_channels: default.num_channels,
        }
    }

    /// Half of the channels, and groups that divide them.
    fn half(&self) -> Self {
        let num_channels = crate::system::half(&self.num_channels);
        let groups = most_groups(&num_channels).min(self.norm_num_groups);
        let inner_channels = self.inner_channels.div_ceil(2).next_multiple_of(2 * groups);
        Self { inner_channels, norm_num_groups: groups, num_channels, ..self.clone() }
    }
}

/// 2000 times, whose betas lie on a line to 0.02, from 1e-6 for SR3 and 1e-4 for DDPM.
fn scheduler(name: Name) -> DdpmSection {
    let beta_start = match name {
        Name::Ddpm => 1e-4,
        _ => 1e-6,
    };
    DdpmSection {
        num_train_timesteps: 2000,
        schedule: Betas::LinearBeta,
        beta_start,
        beta_end: 2e-2,
        ..DdpmSection::default()
    }
}

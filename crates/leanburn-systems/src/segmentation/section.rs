//! The `segmentation` section.

use leanburn_data::DataConfig;
use serde::{Deserialize, Serialize};

use super::dyn_unet::DynUnetSection;
use super::network::NetworkConfig;
use super::objective::SegmentationObjectiveSection;
use super::swin_unetr::SwinUnetrSection;
use super::unet::UnetSection;
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, Section};

/// A model that segments volumes, and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SegmentationSection {
    /// Channels of the volumes. Default: 1.
    pub in_channels: usize,
    /// Classes of the labels, the background among them. Required.
    pub num_classes: usize,
    /// The model, by the key `model`, and its keys. Default: unet.
    #[serde(flatten)]
    pub network: SegmentationNetwork,
    /// How it is trained.
    pub training: Training<SegmentationObjectiveSection>,
}

/// The model of a segmentation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum SegmentationNetwork {
    /// A residual U-Net.
    Unet(UnetSection),
    /// nnU-Net's U-Net.
    DynUnet(DynUnetSection),
    /// A transformer in windows with a convolutional decoder.
    SwinUnetr(SwinUnetrSection),
}

/// Names of the models.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelName {
    Unet,
    DynUnet,
    SwinUnetr,
}

impl From<UnetSection> for SegmentationNetwork {
    fn from(section: UnetSection) -> Self {
        Self::Unet(section)
    }
}

impl From<DynUnetSection> for SegmentationNetwork {
    fn from(section: DynUnetSection) -> Self {
        Self::DynUnet(section)
    }
}

impl From<SwinUnetrSection> for SegmentationNetwork {
    fn from(section: SwinUnetrSection) -> Self {
        Self::SwinUnetr(section)
    }
}

with_methods! { SegmentationSection {
    with_in_channels => in_channels: usize,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: SegmentationObjectiveSection,
} }

impl SegmentationSection {
    /// A model of so many classes, and every default.
    pub fn new(num_classes: usize, network: impl Into<SegmentationNetwork>) -> Self {
        Self { in_channels: 1, num_classes, network: network.into(), training: Training::default() }
    }

    pub(super) fn read_keys(section: &mut Section<'_>, data: &DataConfig) -> Self {
        section.alias("out_channels", "num_classes");
        let num_classes = section.required("num_classes", 2..=256);
        let network = match section.variant("model", ModelName::Unet) {
            ModelName::Unet => SegmentationNetwork::Unet(UnetSection::read(section)),
            ModelName::DynUnet => SegmentationNetwork::DynUnet(DynUnetSection::read(section, data)),
            ModelName::SwinUnetr => SegmentationNetwork::SwinUnetr(SwinUnetrSection::read(section)),
        };
        let default = Self::new(num_classes, network);
        Self {
            in_channels: section.number("in_channels", default.in_channels, 1..=MANY),
            training: section
                .section("training", |section| Training::read(section, SegmentationObjectiveSection::read)),
            ..default
        }
    }

    /// The configuration of the model.
    pub fn model(&self) -> NetworkConfig {
        let (channels, classes) = (self.in_channels, self.num_classes);
        match &self.network {
            SegmentationNetwork::Unet(unet) => NetworkConfig::Unet(unet.model(channels, classes)),
            SegmentationNetwork::DynUnet(unet) => NetworkConfig::DynUnet(unet.model(channels, classes)),
            SegmentationNetwork::SwinUnetr(swin) => NetworkConfig::SwinUnetr(swin.model(channels, classes)),
        }
    }
}

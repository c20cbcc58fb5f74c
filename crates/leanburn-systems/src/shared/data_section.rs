//! The `data` section; its struct belongs to `leanburn-data`, which documents the keys.

use leanburn_data::{AugmentationConfig, DataConfig, LabelsConfig, PhantomConfig, RadarConfig, Strength};
use serde::Deserialize;

use crate::yaml::{MANY, POSITIVE, PerAxis, Section};

pub(crate) fn read_data(section: &mut Section<'_>) -> DataConfig {
    let default = DataConfig::default();
    let (preset, augmentation) = read_augmentation(section);
    DataConfig {
        paths: section.get("paths", default.paths),
        phantom: section.optional("phantom", read_phantom),
        radar: section.optional("radar", read_radar),
        labels: section.optional("labels", read_labels),
        classes: section.get("classes", default.classes),
        channels: section.number("channels", default.channels, 1..=MANY),
        voxel_size: section.number("voxel_size", None, 1..=MANY).map(|PerAxis(size)| size),
        spacing: section.number("spacing", None, POSITIVE).map(|PerAxis(spacing)| spacing),
        normalize: section.choice("normalize", default.normalize),
        percentiles: section.number("percentiles", default.percentiles, 0..=100),
        patch_size: section.number("patch_size", None, 1..=MANY).map(|PerAxis(size)| size),
        foreground_probability: section.number("foreground_probability", default.foreground_probability, 0..=1),
        flip: section.get("flip", PerAxis([preset == Preset::Nnunet; 3])).0,
        intensity_jitter: section.number("intensity_jitter", default.intensity_jitter, 0..=1),
        augmentation,
        val_fraction: section.number("val_fraction", default.val_fraction, 0..1),
        val_patches: section.number("val_patches", default.val_patches, 0..=MANY),
        cache_rate: section.number("cache_rate", default.cache_rate, 0..=1),
        num_workers: section.number("num_workers", default.num_workers, 0..=MANY),
        prefetch: section.number("prefetch", default.prefetch, 0..=MANY),
    }
}

/// Augmentation by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Preset {
    /// None but what is written below.
    None,
    /// nnU-Net's, which mirrors all axes too.
    Nnunet,
}

impl Preset {
    fn config(self) -> AugmentationConfig {
        match self {
            Self::None => AugmentationConfig::default(),
            Self::Nnunet => AugmentationConfig::nnunet(),
        }
    }
}

/// `augmentation: nnunet`, or a section with strengths of its own.
fn read_augmentation(section: &mut Section<'_>) -> (Preset, Option<AugmentationConfig>) {
    if section.is_text("augmentation") {
        let preset = section.choice("augmentation", Preset::None);
        return (preset, (preset != Preset::None).then(|| preset.config()));
    }
    let mut preset = Preset::None;
    let config = section.optional("augmentation", |section| {
        preset = section.choice("preset", Preset::None);
        read_strengths(section, preset)
    });
    (preset, config)
}

fn read_strengths(section: &mut Section<'_>, preset: Preset) -> AugmentationConfig {
    let default = preset.config();
    let rotation_axes = section.get("rotation_axes", PerAxis(default.rotation_axes)).0;
    let mut read = |key: &'static str, default: Strength| {
        let strength = section.optional(key, |section| Strength {
            // what a preset leaves out has to say how often
            probability: match default.probability > 0.0 {
                true => section.number("probability", default.probability, 0..=1),
                false => section.required("probability", 0..=1),
            },
            range: section.get("range", default.range),
        });
        strength.unwrap_or(default)
    };
    AugmentationConfig {
        rotation: read("rotation", default.rotation),
        rotation_axes,
        scaling: read("scaling", default.scaling),
        elastic: read("elastic", default.elastic),
        bias_field: read("bias_field", default.bias_field),
        noise: read("noise", default.noise),
        blur: read("blur", default.blur),
        brightness: read("brightness", default.brightness),
        contrast: read("contrast", default.contrast),
        low_resolution: read("low_resolution", default.low_resolution),
        inverted_gamma: read("inverted_gamma", default.inverted_gamma),
        gamma: read("gamma", default.gamma),
    }
}

fn read_phantom(section: &mut Section<'_>) -> PhantomConfig {
    let default = PhantomConfig::default();
    PhantomConfig {
        count: section.number("count", default.count, 1..),
        shape: section.number("shape", PerAxis(default.shape), 1..=MANY).0,
        noise: section.number("noise", default.noise, 0..),
    }
}

fn read_radar(section: &mut Section<'_>) -> RadarConfig {
    let default = RadarConfig::default();
    RadarConfig {
        count: section.number("count", default.count, 1..),
        shape: section.number("shape", PerAxis(default.shape), 1..=MANY).0,
        vehicles: section.number("vehicles", default.vehicles, 0..=MANY),
        speckle: section.number("speckle", default.speckle, 0..=1),
    }
}

fn read_labels(section: &mut Section<'_>) -> LabelsConfig {
    let default = LabelsConfig::default();
    LabelsConfig {
        label_maps: section.get("label_maps", default.label_maps),
        class_maps: section.get("class_maps", default.class_maps),
        num_classes: section.number("num_classes", default.num_classes, 2..=256),
    }
}

//! Of what kind a configuration is.

use super::document::Document;
use super::precision;
use crate::config::{DIFFSR_NETWORKS, MMCV_KEYS};
use crate::forecaster::ModelType;

/// The kinds of configuration that are recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuideKind {
    /// An autoencoder of volumes.
    Autoencoder,
    /// A forecaster of sequences.
    Forecaster {
        /// Its `model_type`, if it says one.
        model_type: Option<String>,
    },
    /// Super-resolution of fields and images.
    SuperResolution {
        /// Its `model.name`.
        name: String,
        /// What that is.
        architecture: Architecture,
    },
    /// Maps of the ground from cameras, under MMSegmentation's keys.
    Views,
    /// Settings of f16 without a model that is known.
    HalfPrecision,
}

/// What a `model.name` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// A Fourier neural operator.
    Fno,
    /// A U-Net.
    UNet,
    /// A diffusion model, whose network is a U-Net.
    Diffusion,
    /// A transformer.
    Transformer,
    /// Anything else.
    Other,
}

impl GuideKind {
    /// The kind of a file, if its keys show it.
    pub(super) fn of(document: Document<'_>) -> Option<Self> {
        if document.has("autoencoder") {
            return Some(Self::Autoencoder);
        }
        let model_type = document.text(&["model_type", "model.model_type", "model.type"]);
        let days = ["input_days", "data.input_days", "model.input_days"];
        if days.iter().any(|key| document.has(key)) || model_type.is_some_and(forecasts) {
            return Some(Self::Forecaster { model_type: model_type.map(str::to_owned) });
        }
        if let Some(name) = document.text(&["model.name", "model.model_name", "model.which_model_G"]) {
            let architecture = Architecture::of(name);
            let has_data = document.has("data.shape") || document.has("data.train_batchsize");
            if architecture != Architecture::Other || has_data {
                return Some(Self::SuperResolution { name: name.to_owned(), architecture });
            }
        }
        if MMCV_KEYS.iter().any(|key| document.has(key)) {
            return Some(Self::Views);
        }
        precision::is_named(document).then_some(Self::HalfPrecision)
    }

    /// The kind in words, as in "a forecaster (`convlstm`)".
    pub fn describe(&self) -> String {
        match self {
            Self::Autoencoder => "an autoencoder".into(),
            Self::Forecaster { model_type: Some(name) } => format!("a forecaster (`{}`)", name.escape_debug()),
            Self::Forecaster { model_type: None } => "a forecaster".into(),
            Self::SuperResolution { name, architecture } => {
                format!("{} (`{}`)", architecture.describe(), name.escape_debug())
            }
            Self::Views => "maps from cameras".into(),
            Self::HalfPrecision => "settings of half precision".into(),
        }
    }

    /// Whether `leanburn plan` can build it: autoencoders, maps from cameras, DiffSR's `FNO2d`, `SR3`, `DDPM`, `EDSR` and `UNet2d`, and the
    /// forecasters that are ours too.
    pub fn is_modelled(&self) -> bool {
        match self {
            Self::Autoencoder | Self::Views => true,
            Self::Forecaster { model_type: Some(name) } => ModelType::ALL.iter().any(|model| model.name() == name),
            Self::Forecaster { model_type: None } => true,
            Self::SuperResolution { name, .. } => name == "FNO2d" || DIFFSR_NETWORKS.contains(&name.as_str()),
            Self::HalfPrecision => false,
        }
    }

    /// What `leanburn plan` does not model yet, each by name.
    pub(super) fn not_modelled(&self, document: Document<'_>) -> Vec<String> {
        match self {
            Self::Autoencoder => {
                const OURS: [&str; 4] = ["seed", "data", "autoencoder", "device"];
                let sections = document.0.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
                let others = sections.map(|(key, _)| key).filter(|key| !OURS.contains(&key.as_str()));
                others.map(|key| format!("the section `{}`", key.escape_debug())).collect()
            }
            Self::Forecaster { .. } | Self::SuperResolution { .. } if self.is_modelled() => Vec::new(),
            Self::Forecaster { .. } | Self::SuperResolution { .. } => vec![self.describe()],
            Self::Views => Vec::new(),
            Self::HalfPrecision => vec!["a model that the file does not name".into()],
        }
    }
}

/// Whether a `model_type` is a forecaster's: others have that key as well.
fn forecasts(model_type: &str) -> bool {
    let model_type = model_type.to_lowercase();
    ["lstm", "cnn", "gru"].iter().any(|part| model_type.contains(part))
}

impl Architecture {
    /// What a name stands for; letter case, dimensions and variants do not count.
    fn of(name: &str) -> Self {
        let name = name.to_lowercase().replace(['-', '_', ' '], "");
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        // a diffusion model is one whatever network it has
        if has(&["ddpm", "ddim", "diffusion", "sr3", "resshift"]) {
            Self::Diffusion
        } else if has(&["unet"]) {
            Self::UNet
        } else if has(&["fno", "fourier"]) {
            Self::Fno
        } else if has(&["transformer", "swin", "galerkin"]) {
            Self::Transformer
        } else {
            Self::Other
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Fno => "a Fourier neural operator",
            Self::UNet => "a U-Net",
            Self::Diffusion => "a diffusion model",
            Self::Transformer => "a transformer",
            Self::Other => "a super-resolution model",
        }
    }
}

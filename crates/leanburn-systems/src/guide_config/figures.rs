//! The numbers of the rule of thumb, as each kind of configuration names them.

use serde_json::Value;

use super::document::Document;
use super::kind::{Architecture, GuideKind};

/// The numbers of the rule of thumb, by the names of [`Calc`](leanburn_plan::calc::Calc).
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Samples in a batch.
    pub batch: Figure,
    /// Steps of a sequence, or depth.
    pub seq_len: Figure,
    /// Height in pixels.
    pub height: Figure,
    /// Width in pixels.
    pub width: Figure,
    /// Channels.
    pub hidden_dim: Figure,
    /// Layers.
    pub num_layers: Figure,
}

/// A number that a file says, or does not.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// The file says it.
    Given {
        /// The number.
        value: u32,
        /// How the file says it, as in `model.n_layers`.
        source: String,
    },
    /// The file does not say it; its program would take this.
    Assumed {
        /// The number.
        value: u32,
        /// Why, in words.
        reason: String,
    },
    /// The file says what is no such number.
    Wrong {
        /// The key.
        key: String,
        /// What it says.
        found: String,
    },
    /// The file does not say it.
    Missing,
}

/// Where the numbers of a file of no fixed layout may stand.
const SECTIONS: [&str; 5] = ["", "model.", "data.", "train.", "training."];

/// Names of the channels of a super-resolution model.
const WIDTHS: [&str; 8] = [
    "model.width",
    "model.hidden_dim",
    "model.hidden_channels",
    "model.n_hidden",
    "model.embed_dim",
    "model.init_features",
    "model.inner_channel",
    "model.unet.inner_channel",
];

impl Figures {
    pub(super) fn read(document: Document<'_>, kind: &GuideKind) -> Self {
        match kind {
            GuideKind::Autoencoder => Self::autoencoder(document),
            GuideKind::SuperResolution { architecture, .. } => Self::super_resolution(document, *architecture),
            GuideKind::Forecaster { .. } | GuideKind::Views | GuideKind::HalfPrecision => Self::anywhere(document),
        }
    }

    fn autoencoder(document: Document<'_>) -> Self {
        let either = |one, other| if document.has(one) { one } else { other };
        let size = either("data.patch_size", "data.voxel_size");
        let channels = either("autoencoder.num_channels", "autoencoder.channels");
        Self {
            batch: number(document, &["autoencoder.training.batch_size"]).or(1, "the default"),
            seq_len: entry(document, size, 2),
            height: entry(document, size, 0),
            width: entry(document, size, 1),
            hidden_dim: entry(document, channels, 0),
            num_layers: autoencoder_layers(document, document.count(channels)),
        }
    }

    fn super_resolution(document: Document<'_>, architecture: Architecture) -> Self {
        // the last two axes are height and width, one before them is time or depth; one number is both sides
        let axes = document.count("data.shape");
        let axis = |from_end: usize| entry(document, "data.shape", axes.saturating_sub(from_end));
        let layers = ["model.n_layers", "model.num_layers"];
        let blocks = ["model.num_res_blocks", "model.res_blocks", "model.unet.res_blocks"];
        Self {
            batch: number(document, &["data.train_batchsize", "data.batch_size", "train.batch_size"]),
            seq_len: if axes < 3 { Figure::Missing.or(1, "`data.shape` has no third axis") } else { axis(3) },
            height: axis(2),
            width: axis(1),
            hidden_dim: number(document, &WIDTHS),
            num_layers: match architecture {
                Architecture::Fno => number(document, &layers).or(4, "the default of an FNO"),
                Architecture::UNet | Architecture::Diffusion => {
                    number(document, &blocks).or(2, "the default of a U-Net").times(4, "x 4 stages")
                }
                Architecture::Transformer | Architecture::Other => {
                    number(document, &["model.num_encoder_layers", "model.num_layers", layers[0]])
                }
            },
        }
    }

    /// The numbers by their own names, at the top or in a section.
    fn anywhere(document: Document<'_>) -> Self {
        let first = |names: &[&str]| {
            let keys = SECTIONS.iter().flat_map(|section| names.iter().map(move |name| format!("{section}{name}")));
            let key = keys.into_iter().find(|key| document.has(key));
            key.map_or(Figure::Missing, |key| number(document, &[&key]))
        };
        Self {
            batch: first(&["batch_size", "train_batch_size", "train_batchsize", "train_micro_batch_size_per_gpu"]),
            seq_len: first(&["input_days", "seq_len"]).or(1, "the file names no sequence"),
            height: first(&["height", "image_size"]),
            width: first(&["width", "image_size"]),
            hidden_dim: first(&["hidden_dim", "hidden_channels"]),
            num_layers: first(&["num_layers", "n_layers"]),
        }
    }
}

/// The number under the first of the keys that is there.
fn number(document: Document<'_>, keys: &[&str]) -> Figure {
    let key = keys.iter().find(|key| document.has(key));
    key.map_or(Figure::Missing, |key| Figure::read(document.at(key), key))
}

/// An entry of a list; one number stands for all.
fn entry(document: Document<'_>, key: &str, index: usize) -> Figure {
    match document.at(key) {
        None => Figure::Missing,
        Some(Value::Array(items)) => Figure::read(items.get(index), &format!("{key}[{index}]")),
        value => Figure::read(value, key),
    }
}

/// The residual blocks of all levels, times 2: the encoder's and the decoder's.
fn autoencoder_layers(document: Document<'_>, levels: usize) -> Figure {
    const KEY: &str = "autoencoder.num_res_blocks";
    let Some(levels) = u32::try_from(levels).ok().filter(|levels| *levels > 0) else { return Figure::Missing };
    let Some(list) = document.at(KEY).and_then(Value::as_array) else {
        return number(document, &[KEY]).or(2, "MONAI's default").times(levels, "a level").times(2, "x 2");
    };
    let sum = list.iter().try_fold(0, |sum: u64, blocks| sum.checked_add(blocks.as_u64()?));
    Figure::read(sum.map(Value::from).as_ref().or(document.at(KEY)), KEY).times(2, "in all x 2")
}

impl Figure {
    /// Reads a whole number of at least 1 from what stands under a key. Nothing is an entry that a list should have.
    pub(super) fn read(value: Option<&Value>, key: &str) -> Self {
        let whole = value.and_then(Value::as_u64).and_then(|value| u32::try_from(value).ok());
        match whole.filter(|value| *value > 0) {
            Some(value) => Self::Given { value, source: key.to_owned() },
            None => Self::Wrong { key: key.to_owned(), found: value.map_or("no such entry".to_owned(), shorten) },
        }
    }

    /// The number, if there is one.
    pub fn value(&self) -> Option<u32> {
        match self {
            Self::Given { value, .. } | Self::Assumed { value, .. } => Some(*value),
            Self::Wrong { .. } | Self::Missing => None,
        }
    }

    /// What is taken where the file says nothing.
    fn or(self, value: u32, reason: &str) -> Self {
        if self == Self::Missing { Self::Assumed { value, reason: reason.to_owned() } } else { self }
    }

    /// The number times another, which `words` explain.
    fn times(self, factor: u32, words: &str) -> Self {
        match self {
            Self::Given { value, source } => match value.checked_mul(factor) {
                Some(value) => Self::Given { value, source: format!("{source} {words}") },
                None => Self::Wrong { key: source, found: value.to_string() },
            },
            Self::Assumed { value, reason } => {
                Self::Assumed { value: value.saturating_mul(factor), reason: format!("{reason} {words}") }
            }
            other => other,
        }
    }
}

/// A value as it may be shown on a terminal.
fn shorten(value: &Value) -> String {
    const SHOWN: usize = 40;
    let text = value.to_string();
    let start: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > SHOWN { format!("{start}...") } else { start }
}

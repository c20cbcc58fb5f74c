//! Configurations of other programs, as guides to training within a card's memory print them.
//!
//! | kind | telling keys |
//! |---|---|
//! | autoencoder | `autoencoder` at the top: ours, and that of the guide to high-resolution volumes |
//! | forecaster | `model_type` (`convlstm`, `3dcnn_lstm`, ...) or `input_days`, with `batch_size` |
//! | super-resolution | `model.name` (`FNO2d`, `UNet2d`, `DDPM`, a transformer, ...), `data.shape`, `data.train_batchsize` |
//! | maps from cameras | `data.samples_per_gpu` or `runner.max_iters` |
//! | half precision | `loss_scale` or `fp16`, and none of the above |
//!
//! They are read leniently: what is not asked for may be anything. The numbers that [`calc`](leanburn_plan::calc::Calc) needs are
//! read under the names that these programs use. Layers are counted as the guides do: FNO `n_layers` (4 if absent),
//! U-Net and diffusion `num_res_blocks` (2 if absent) x 4 stages, transformers `num_layers`. Of an autoencoder, the rule gets
//! twice the residual blocks of all levels (encoder and decoder) as layers, the first of `num_channels` as `hidden_dim`, and
//! the depth as `seq_len`.

mod document;
mod figures;
mod kind;
mod precision;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{NonFiniteFloatPolicy, Options};

use self::document::Document;
use crate::shared::LossScale;

pub use figures::{Figure, Figures};
pub use kind::{Architecture, GuideKind};

/// The most bytes a configuration may have.
const MAX_BYTES: u64 = 1 << 20;

/// What a configuration says that `calc` and `plan` want to know.
#[derive(Debug, Clone, PartialEq)]
pub struct GuideConfig {
    /// The kind of file.
    pub kind: GuideKind,
    /// The numbers of the rule of thumb.
    pub figures: Figures,
    /// What the loss is multiplied by in f16; none if the file does not ask for f16 or says no scale.
    pub loss_scale: Option<LossScale>,
    /// Whether it asks for half precision.
    pub half_precision: bool,
    /// What it asks for that `leanburn plan` does not model yet, each by name and key.
    pub not_modelled: Vec<String>,
}

/// A file that is no configuration of a known kind.
#[derive(Debug, thiserror::Error)]
pub enum GuideError {
    /// It cannot be read.
    #[error("expected a readable text file of at most 1 MiB, found {reason}")]
    Unreadable {
        /// Why not.
        reason: String,
    },
    /// It is not YAML.
    #[error("expected YAML, found {reason}")]
    NotYaml {
        /// What is wrong with it, and where.
        reason: String,
    },
    /// No key shows its kind.
    #[error(
        "expected one of the kinds that are known by their keys: an autoencoder (`autoencoder` at the top), a forecaster \
        (`model_type` such as convlstm or 3dcnn_lstm, `batch_size`, `input_days`), super-resolution (`model.name` such as \
        FNO2d, UNet2d, DDPM or a transformer, `data.shape`, `data.train_batchsize`), half precision (`loss_scale` or \
        `fp16`); found none of these keys"
    )]
    UnknownKind,
}

impl GuideConfig {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not YAML, or of no known kind.
    pub fn load(path: &Path) -> Result<Self, GuideError> {
        let unreadable = |reason: String| GuideError::Unreadable { reason };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(unreadable("more".into()));
        }
        let text = String::from_utf8(bytes).map_err(|_| unreadable("bytes that are not UTF-8".into()))?;
        Self::parse(&text)
    }

    /// Reads YAML text.
    ///
    /// # Errors
    ///
    /// Text that is not YAML, or of no known kind.
    pub fn parse(text: &str) -> Result<Self, GuideError> {
        let root: Value = serde_saphyr::from_str_with_options(text, options())
            .map_err(|error| GuideError::NotYaml { reason: error.to_string().replace(char::is_control, " ") })?;
        let document = Document(&root);
        let kind = GuideKind::of(document).ok_or(GuideError::UnknownKind)?;
        let figures = Figures::read(document, &kind);
        let (half_precision, loss_scale) = precision::read(document);
        let not_modelled = kind.not_modelled(document);
        Ok(Self { kind, figures, loss_scale, half_precision, not_modelled })
    }
}

/// As lenient as Python's reader, within limits against hostile input.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 24, flow_nesting_limit: 24, max_documents: 1 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

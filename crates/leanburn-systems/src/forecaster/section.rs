//! The `forecaster` section, and `sequence`, what it is trained on; `leanburn-data` documents the keys of the latter.

use leanburn_data::{AdvectionConfig, SequenceConfig};
use leanburn_nn::losses::Difference;
use serde::{Deserialize, Serialize};

use super::limits::{MANY, POSITIVE};
use super::reader::Section;
use super::training::Training;
use super::values::PerPlane;

/// The forecasters of the climate guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelType {
    /// A convolutional LSTM.
    #[serde(rename = "convlstm")]
    ConvLstm,
    /// Three 3D convolutions and an LSTM from both ends.
    #[serde(rename = "3dcnn_lstm")]
    Cnn3dLstm,
    /// Two convolutions, fewer channels.
    #[serde(rename = "3dcnn_lstm_lite")]
    Cnn3dLstmLite,
    /// One convolution, an LSTM from the beginning.
    #[serde(rename = "3dcnn_lstm_micro")]
    Cnn3dLstmMicro,
}

impl ModelType {
    /// All of them, the largest first.
    pub const ALL: [Self; 4] = [Self::Cnn3dLstm, Self::ConvLstm, Self::Cnn3dLstmLite, Self::Cnn3dLstmMicro];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConvLstm => "convlstm",
            Self::Cnn3dLstm => "3dcnn_lstm",
            Self::Cnn3dLstmLite => "3dcnn_lstm_lite",
            Self::Cnn3dLstmMicro => "3dcnn_lstm_micro",
        }
    }
}

/// The forecaster and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForecasterSection {
    /// The model. Default: convlstm.
    pub model_type: ModelType,
    /// Channels of each field. Default: as many as `sequence.use_channels` names, or 4.
    pub in_channels: usize,
    /// Channels of the state of a convlstm; the others have their own. Default: 16.
    pub hidden_channels: usize,
    /// Truncated backpropagation through time of a convlstm: backward goes through the last so many steps. Default: all.
    pub truncate_steps: Option<usize>,
    /// How it is trained.
    pub training: Training<ForecastObjectiveSection>,
}

/// The loss of a forecaster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForecastObjectiveSection {
    /// The loss between forecast and truth. Default: l2.
    pub forecast_loss: Difference,
}

impl ForecasterSection {
    pub(super) fn read(section: &mut Section<'_>, sequence: &SequenceConfig) -> Self {
        let channels = match sequence.use_channels.len() {
            0 => 4,
            named => named,
        };
        Self {
            model_type: section.choice("model_type", ModelType::ConvLstm),
            in_channels: section.number("in_channels", channels, 1..=MANY),
            hidden_channels: section.number("hidden_channels", 16, 1..=MANY),
            truncate_steps: section.number("truncate_steps", None, 1..),
            training: section.section("training", |section| {
                Training::read(section, |section| ForecastObjectiveSection {
                    forecast_loss: section.choice("forecast_loss", Difference::L2),
                })
            }),
        }
    }
}

pub(super) fn read_sequence(section: &mut Section<'_>) -> SequenceConfig {
    let default = SequenceConfig::default();
    let use_channels: Vec<usize> = section.get("use_channels", default.use_channels);
    let target = use_channels.first().copied().unwrap_or(0);
    SequenceConfig {
        paths: section.get("paths", default.paths),
        advection: section.optional("advection", read_advection),
        input_days: section.number("input_days", default.input_days, 1..),
        predict_days: section.number("predict_days", default.predict_days, 1..),
        target_channel: Some(section.get("target_channel", target)),
        use_channels,
        downsample: section.number("downsample", default.downsample, 1..=MANY),
        normalize: section.choice("normalize", default.normalize),
        percentiles: section.number("percentiles", default.percentiles, 0..=100),
        val_fraction: section.number("val_fraction", default.val_fraction, 0..1),
        num_workers: section.number("num_workers", default.num_workers, 0..=MANY),
        prefetch: section.number("prefetch", default.prefetch, 0..=MANY),
    }
}

fn read_advection(section: &mut Section<'_>) -> AdvectionConfig {
    let default = AdvectionConfig::default();
    AdvectionConfig {
        steps: section.number("steps", default.steps, 1..),
        shape: section.number("shape", PerPlane(default.shape), 1..=MANY).0,
        flow: section.choice("flow", default.flow),
        speed: section.get("speed", default.speed),
        turn_steps: section.number("turn_steps", default.turn_steps, POSITIVE),
        forcing: section.get("forcing", default.forcing),
    }
}

//! The `forecaster` section.

use leanburn_data::SequenceConfig;
use leanburn_nn::losses::Difference;
use serde::{Deserialize, Serialize};

use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, Section};

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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct ForecastObjectiveSection {
    /// The loss between forecast and truth. Default: l2.
    pub forecast_loss: Difference,
}

impl Default for ForecastObjectiveSection {
    fn default() -> Self {
        Self { forecast_loss: Difference::L2 }
    }
}

impl Default for ForecasterSection {
    fn default() -> Self {
        Self::new(ModelType::ConvLstm)
    }
}

with_methods! { ForecasterSection {
    with_in_channels => in_channels: usize,
    with_hidden_channels => hidden_channels: usize,
    with_truncate_steps => truncate_steps: Option<usize>,
    with_training => training.common: TrainingSection,
    with_forecast_loss => training.objective.forecast_loss: Difference,
} }

impl ForecasterSection {
    /// A model for fields of four channels, with every default.
    pub fn new(model_type: ModelType) -> Self {
        Self { model_type, in_channels: 4, hidden_channels: 16, truncate_steps: None, training: Training::default() }
    }

    pub(super) fn read_keys(section: &mut Section<'_>, sequence: &SequenceConfig) -> Self {
        let default = Self::default();
        let channels = match sequence.use_channels.len() {
            0 => default.in_channels,
            named => named,
        };
        let objective = default.training.objective;
        Self {
            model_type: section.choice("model_type", default.model_type),
            in_channels: section.number("in_channels", channels, 1..=MANY),
            hidden_channels: section.number("hidden_channels", default.hidden_channels, 1..=MANY),
            truncate_steps: section.number("truncate_steps", default.truncate_steps, 1..),
            training: section.section("training", |section| {
                Training::read(section, |section| ForecastObjectiveSection {
                    forecast_loss: section.choice("forecast_loss", objective.forecast_loss),
                })
            }),
        }
    }
}

//! The model of a forecaster, from its section.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_nn::models::{Cnn3dLstm, Cnn3dLstmConfig, ConvLstm, ConvLstmConfig};
use leanburn_nn::weights::MonaiWeights;
use leanburn_ops::ResidencyPolicy;
use leanburn_train::Forecaster;

use super::section::{ForecasterSection, ModelType};

/// The forecaster of a configuration.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum AnyForecaster {
    /// A convolutional LSTM.
    ConvLstm(ConvLstm),
    /// 3D convolutions and an LSTM.
    Cnn3dLstm(Cnn3dLstm),
}

impl Forecaster for AnyForecaster {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        match self {
            Self::ConvLstm(model) => model.forward(fields),
            Self::Cnn3dLstm(model) => model.forward(fields),
        }
    }
}

impl AnyForecaster {
    /// The same with segments that are saved or recomputed as the policy says.
    pub(super) fn with_residency(self, policy: ResidencyPolicy) -> Self {
        match self {
            Self::ConvLstm(model) => Self::ConvLstm(model.with_residency(policy)),
            Self::Cnn3dLstm(model) => Self::Cnn3dLstm(model.with_residency(policy)),
        }
    }

    /// Names of the segments for sequences of `time` fields.
    pub(super) fn segments(&self, time: usize) -> Vec<String> {
        match self {
            Self::ConvLstm(model) => model.segments(time),
            Self::Cnn3dLstm(model) => model.segments(),
        }
    }
}

impl MonaiWeights for AnyForecaster {
    /// A convolutional LSTM's parameters have its own names, and none is called as those of the other.
    fn monai_name(path: &str) -> String {
        Cnn3dLstm::monai_name(path)
    }
}

/// The configuration of a forecaster.
pub(super) enum ForecasterConfig {
    /// Of a convolutional LSTM.
    ConvLstm(ConvLstmConfig),
    /// Of 3D convolutions and an LSTM.
    Cnn3dLstm(Cnn3dLstmConfig),
}

impl ForecasterConfig {
    /// What is wrong with it.
    pub(super) fn validate(&self) -> Vec<ValidationError> {
        match self {
            Self::ConvLstm(config) => config.validate(),
            Self::Cnn3dLstm(config) => config.validate(),
        }
    }

    /// The model.
    pub(super) fn init(&self, device: &Device) -> AnyForecaster {
        match self {
            Self::ConvLstm(config) => AnyForecaster::ConvLstm(config.init(device)),
            Self::Cnn3dLstm(config) => AnyForecaster::Cnn3dLstm(config.init(device)),
        }
    }
}

impl ForecasterSection {
    /// The configuration of the model that forecasts so many days.
    pub(super) fn model(&self, predict_days: usize) -> ForecasterConfig {
        let channels = self.in_channels;
        let convolutional = match self.model_type {
            ModelType::ConvLstm => {
                let config = ConvLstmConfig::new(channels)
                    .with_hidden_channels(self.hidden_channels)
                    .with_truncate_steps(self.truncate_steps);
                return ForecasterConfig::ConvLstm(config.with_predict_days(predict_days));
            }
            ModelType::Cnn3dLstm => Cnn3dLstmConfig::original(channels),
            ModelType::Cnn3dLstmLite => Cnn3dLstmConfig::lite(channels),
            ModelType::Cnn3dLstmMicro => Cnn3dLstmConfig::micro(channels),
        };
        ForecasterConfig::Cnn3dLstm(convolutional.with_predict_days(predict_days))
    }
}

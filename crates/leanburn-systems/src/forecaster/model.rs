//! The model of a forecaster, from its section.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_nn::models::{Cnn3dLstm, Cnn3dLstmConfig, ConvLstm, ConvLstmConfig};
use leanburn_nn::weights::{self, WeightsError};
use leanburn_ops::ResidencyPolicy;
use leanburn_train::Forecaster;

use super::section::{ForecasterSection, ModelType};
use crate::error::Result;
use crate::shared::{Context, drawn, reject};

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

    /// Saves the weights in PyTorch's names.
    ///
    /// # Errors
    ///
    /// As [`weights::save_safetensors`].
    pub fn save(&self, path: &std::path::Path) -> std::result::Result<(), WeightsError> {
        match self {
            Self::ConvLstm(model) => weights::save_safetensors(model, path),
            Self::Cnn3dLstm(model) => weights::save_safetensors(model, path),
        }
    }
}

impl ForecasterSection {
    /// Checks the model that forecasts so many days, and makes it where a device is given.
    ///
    /// # Errors
    ///
    /// [`SystemError::Model`](crate::SystemError::Model).
    pub(super) fn init(
        &self,
        context: &Context<'_>,
        predict_days: usize,
        device: Option<&Device>,
    ) -> Result<Option<AnyForecaster>> {
        let channels = self.in_channels;
        let convolutional = match self.model_type {
            ModelType::ConvLstm => {
                let config = ConvLstmConfig::new(channels)
                    .with_hidden_channels(self.hidden_channels)
                    .with_truncate_steps(self.truncate_steps)
                    .with_predict_days(predict_days);
                reject(context, "forecaster", config.mistakes())?;
                return Ok(device.map(|device| AnyForecaster::ConvLstm(drawn(device, |device| config.init(device)))));
            }
            ModelType::Cnn3dLstm => Cnn3dLstmConfig::original(channels),
            ModelType::Cnn3dLstmLite => Cnn3dLstmConfig::lite(channels),
            ModelType::Cnn3dLstmMicro => Cnn3dLstmConfig::micro(channels),
        };
        let config = convolutional.with_predict_days(predict_days);
        reject(context, "forecaster", config.mistakes())?;
        Ok(device.map(|device| AnyForecaster::Cnn3dLstm(drawn(device, |device| config.init(device)))))
    }
}

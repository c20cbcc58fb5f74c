//! Forecasters, from a configuration.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_data::SequenceConfig;
use leanburn_nn::models::{Cnn3dLstm, Cnn3dLstmConfig, ConvLstm, ConvLstmConfig};
use leanburn_nn::weights::{self, WeightsError};
use leanburn_ops::ResidencyPolicy;
use leanburn_train::{ForecastWorkload, Forecaster, Learner};

use super::learner::{drawn, learner, policy, refuse};
use crate::config::{Config, ForecasterSection, ModelType};
use crate::error::Result;

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
    fn with_residency(self, policy: ResidencyPolicy) -> Self {
        match self {
            Self::ConvLstm(model) => Self::ConvLstm(model.with_residency(policy)),
            Self::Cnn3dLstm(model) => Self::Cnn3dLstm(model.with_residency(policy)),
        }
    }

    /// Names of the segments for sequences of `time` fields.
    fn segments(&self, time: usize) -> Vec<String> {
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

pub(super) fn build(
    config: &Config,
    section: &ForecasterSection,
    sequence: &SequenceConfig,
    source: &str,
    device: &Device,
) -> Result<ForecastWorkload<AnyForecaster>> {
    init(section, sequence, source, None)?;
    let time = sequence.input_days;
    let segments =
        || Ok(init(section, sequence, source, Some(&Device::flex()))?.map_or(vec![], |it| it.segments(time)));
    let policy = policy(config, source, segments)?;
    leanburn_ops::random::seed(device, config.seed);
    let model = init(section, sequence, source, Some(device))?.expect("on a device");
    let training = &section.training;
    let learner =
        Learner::new("forecaster", model.with_residency(policy), learner(config, training.common.learning_rate))?;
    Ok(ForecastWorkload::new(learner, training.objective.forecast_loss, config.device.resolved_precision()))
}

/// Checks the model, and makes it where a device is given.
fn init(
    section: &ForecasterSection,
    sequence: &SequenceConfig,
    source: &str,
    device: Option<&Device>,
) -> Result<Option<AnyForecaster>> {
    let channels = section.in_channels;
    let convolutional = match section.model_type {
        ModelType::ConvLstm => {
            let config = ConvLstmConfig::new(channels)
                .with_hidden_channels(section.hidden_channels)
                .with_truncate_steps(section.truncate_steps)
                .with_predict_days(sequence.predict_days);
            refuse(source, "forecaster", config.mistakes())?;
            return Ok(device.map(|device| AnyForecaster::ConvLstm(drawn(device, |device| config.init(device)))));
        }
        ModelType::Cnn3dLstm => Cnn3dLstmConfig::original(channels),
        ModelType::Cnn3dLstmLite => Cnn3dLstmConfig::lite(channels),
        ModelType::Cnn3dLstmMicro => Cnn3dLstmConfig::micro(channels),
    };
    let config = convolutional.with_predict_days(sequence.predict_days);
    refuse(source, "forecaster", config.mistakes())?;
    Ok(device.map(|device| AnyForecaster::Cnn3dLstm(drawn(device, |device| config.init(device)))))
}

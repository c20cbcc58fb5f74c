//! The network of an operator, from its section.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_data::SequenceConfig;
use leanburn_nn::models::{ConvNet, ConvNetConfig, Fno, FnoConfig, ShapeError};
use leanburn_nn::weights::MonaiWeights;
use leanburn_ops::{ResidencyPolicy, Unstreamable};
use leanburn_train::Forecaster;

use super::section::{OperatorModel, OperatorSection};

/// The network of a configuration.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum AnyOperator {
    /// A Fourier neural operator.
    Fno(Fno),
    /// Convolutions, to compare with.
    Conv(ConvNet),
}

impl Forecaster for AnyOperator {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        match self {
            Self::Fno(model) => model.forecast(fields),
            Self::Conv(model) => model.forecast(fields),
        }
    }
}

impl AnyOperator {
    /// The same with segments that are saved or recomputed as the policy says.
    pub(super) fn with_residency(self, policy: ResidencyPolicy) -> Self {
        match self {
            Self::Fno(model) => Self::Fno(model.with_residency(policy)),
            Self::Conv(model) => Self::Conv(model.with_residency(policy)),
        }
    }

    /// Names of the segments.
    pub(super) fn segments(&self) -> Vec<String> {
        match self {
            Self::Fno(model) => model.segments(),
            Self::Conv(model) => model.segments(),
        }
    }

    /// The segments that can run in slabs.
    pub(super) fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        match self {
            Self::Fno(model) => model.unstreamable(),
            Self::Conv(_) => Vec::new(),
        }
    }
}

impl MonaiWeights for AnyOperator {
    /// The names of a convolutional network's parameters have no part that an operator's lose.
    fn monai_name(path: &str) -> String {
        Fno::monai_name(path)
    }
}

/// The configuration of a network.
pub(super) enum NetworkConfig {
    /// Of an operator.
    Fno(FnoConfig),
    /// Of convolutions.
    Conv(ConvNetConfig),
}

impl NetworkConfig {
    /// What is wrong with it.
    pub(super) fn validate(&self) -> Vec<ValidationError> {
        match self {
            Self::Fno(config) => config.validate(),
            Self::Conv(config) => config.validate(),
        }
    }

    /// Whether it takes an input of this shape.
    pub(super) fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        match self {
            Self::Fno(config) => config.check_input(shape),
            Self::Conv(config) => config.check_input(shape),
        }
    }

    /// The network.
    pub(super) fn init(&self, device: &Device) -> AnyOperator {
        match self {
            Self::Fno(config) => AnyOperator::Fno(config.init(device)),
            Self::Conv(config) => AnyOperator::Conv(config.init(device)),
        }
    }
}

impl OperatorSection {
    /// The configuration of the network for windows of these fields: those that are seen are channels of its input, those that are
    /// predicted of its output.
    pub(super) fn network(&self, fields: &SequenceConfig) -> NetworkConfig {
        if self.model != OperatorModel::Conv {
            return NetworkConfig::Fno(self.model(fields));
        }
        let config = ConvNetConfig::new(self.in_channels.saturating_mul(fields.input_days), fields.predict_days);
        let channels = self.widths.first().copied().unwrap_or_default();
        NetworkConfig::Conv(config.with_channels(channels).with_num_blocks(self.widths.len().saturating_sub(1)))
    }
}

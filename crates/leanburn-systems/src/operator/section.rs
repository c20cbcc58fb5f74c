//! The `operator` section.

use leanburn_common::{Validation, ValidationError};
use leanburn_data::SequenceConfig;
use leanburn_nn::blocks::Activation;
use leanburn_nn::losses::Difference;
use leanburn_nn::models::{FnoBlock, FnoConfig, FnoFrequencies, FnoPositions, FnoUpsampling};
use leanburn_train::ForecastLoss;
use serde::{Deserialize, Serialize};

use super::modes::Modes;
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, PerLevel, Section};

/// The networks that there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperatorModel {
    /// That of the [paper's](https://arxiv.org/abs/2010.08895) authors.
    #[default]
    Fno,
    /// That of [neuraloperator](https://github.com/neuraloperator/neuraloperator) 2.0, with networks inside of its layers.
    Neuraloperator,
    /// `FNO2d` of [DiffSR](https://github.com/lizhihao2022/DiffSR), for super-resolution.
    #[serde(alias = "FNO2d")]
    Diffsr,
    /// A residual network of convolutions, to compare with: `widths` are its channels, one number, and `num_layers` its blocks.
    Conv,
}

/// A neural operator and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperatorSection {
    /// The network. Default: fno.
    pub model: OperatorModel,
    /// Channels of each field. Default: as many as `sequence.use_channels` names, or 1.
    pub in_channels: usize,
    /// Channels in front of the first layer and behind each, one more than layers; one number stands for all. Default: 20.
    pub widths: Vec<usize>,
    /// Frequencies of each layer along height and width, at most; one pair stands for all. Along the height `model` neuraloperator
    /// counts those below 0 too, the others do not. Of diffsr the last entry is that of the layer that refines the grid. Default: [12, 12].
    pub modes: Vec<[usize; 2]>,
    /// Channels inside of the network from the last layer to the output. Default: those of `model`.
    pub projection_channels: Vec<usize>,
    /// Whether a batch norm follows each layer of an fno, with ReLU in place of GELU, as in the paper's experiments. Default: false.
    pub batch_norm: bool,
    /// Share of the spectral weights' numbers that their Tucker factors have. Default: weights are not factorised.
    pub rank: Option<f64>,
    /// How it is trained.
    pub training: Training<OperatorObjectiveSection>,
}

/// The loss of an operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperatorObjectiveSection {
    /// The loss between prediction and truth. Default: relative_l2.
    pub operator_loss: OperatorLoss,
}

/// How predictions are compared with the truth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorLoss {
    /// `|prediction - truth| / |truth|` of each window.
    #[default]
    RelativeL2,
    /// The mean squared difference.
    L2,
    /// The mean absolute difference.
    L1,
}

impl From<OperatorLoss> for ForecastLoss {
    fn from(loss: OperatorLoss) -> Self {
        match loss {
            OperatorLoss::RelativeL2 => Self::RelativeL2,
            OperatorLoss::L2 => Self::Difference(Difference::L2),
            OperatorLoss::L1 => Self::Difference(Difference::L1),
        }
    }
}

impl Default for OperatorObjectiveSection {
    fn default() -> Self {
        Self { operator_loss: OperatorLoss::RelativeL2 }
    }
}

impl Default for OperatorSection {
    fn default() -> Self {
        Self::new(OperatorModel::Fno, vec![20; 5], vec![[12, 12]; 4])
    }
}

with_methods! { OperatorSection {
    with_in_channels => in_channels: usize,
    with_projection_channels => projection_channels: Vec<usize>,
    with_batch_norm => batch_norm: bool,
    with_rank => rank: Option<f64>,
    with_training => training.common: TrainingSection,
    with_operator_loss => training.objective.operator_loss: OperatorLoss,
} }

/// Layers where nothing says how many.
const LAYERS: usize = 4;

impl OperatorSection {
    /// A network with these channels and frequencies, and every default.
    pub fn new(model: OperatorModel, widths: Vec<usize>, modes: Vec<[usize; 2]>) -> Self {
        let last = widths.last().copied().unwrap_or(1);
        let projection_channels = match model {
            OperatorModel::Fno => vec![128],
            OperatorModel::Neuraloperator => vec![last.saturating_mul(2)],
            OperatorModel::Diffsr => vec![128, last],
            OperatorModel::Conv => Vec::new(),
        };
        Self {
            model,
            in_channels: 1,
            widths,
            modes,
            projection_channels,
            batch_norm: false,
            rank: None,
            training: Training::default(),
        }
    }

    pub(super) fn read_keys(section: &mut Section<'_>, sequence: &SequenceConfig) -> Self {
        let model = section.choice("model", OperatorModel::Fno);
        let widths = section.number("widths", PerLevel::All(20), 1..=MANY);
        let modes = section.number("modes", Modes::All([12, 12]), 1..=MANY);
        let named = match (&widths, &modes) {
            (PerLevel::Each(widths), _) => widths.len().saturating_sub(1),
            (_, Modes::Each(modes)) => modes.len(),
            _ => LAYERS,
        };
        let layers = section.number("num_layers", named, 1..=256);
        let default = Self::new(model, widths.resolve(layers + 1), modes.resolve(layers));
        let in_channels = sequence.use_channels.len().max(1);
        let objective = OperatorObjectiveSection::default();
        Self {
            in_channels: section.number("in_channels", in_channels, 1..=MANY),
            projection_channels: section.number("projection_channels", default.projection_channels, 1..=MANY),
            batch_norm: section.get("batch_norm", default.batch_norm),
            rank: section.number("rank", default.rank, 0..=1),
            training: section.section("training", |section| {
                Training::read(section, |section| OperatorObjectiveSection {
                    operator_loss: section.choice("operator_loss", objective.operator_loss),
                })
            }),
            ..default
        }
    }

    /// What a network of convolutions has no use for, or cannot do.
    pub(super) fn unsuited(&self, sample_factor: usize) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        if self.model == OperatorModel::Conv {
            let same = self.widths.windows(2).all(|pair| pair[0] == pair[1]);
            let (found, help) = (format!("{:?}", self.widths), "write one number, such as `widths: 64`");
            validation.check(same, "widths", "one width of all blocks of `conv`", found, help);
            let help = "drop the key: `conv` has no such thing";
            validation.check(self.rank.is_none(), "rank", "none under `model: conv`", "a share", help);
            validation.check(!self.batch_norm, "batch_norm", "false under `model: conv`", true, help);
            let help = "drop `sample_factor`, or take a neural operator";
            validation.check(sample_factor <= 1, "upsampling", "1: `conv` refines no grid", sample_factor, help);
        }
        validation.errors()
    }

    /// The configuration of the operator for windows of these fields: those that are seen are channels of its input, those that are
    /// predicted of its output.
    pub fn model(&self, fields: &SequenceConfig) -> FnoConfig {
        let (input, output) = (self.in_channels.saturating_mul(fields.input_days), fields.predict_days);
        let modes: Vec<Vec<usize>> = self.modes.iter().map(|modes| modes.to_vec()).collect();
        let plain = || FnoConfig::new(input, output, self.widths.clone(), modes.clone());
        let factor = fields.sample_factor;
        let refining = FnoUpsampling { factor, modes: modes.last().cloned().unwrap_or_default() };
        let config = match self.model {
            OperatorModel::Diffsr => FnoConfig::diffsr_2d([input, output], self.widths.clone(), modes.clone(), factor),
            OperatorModel::Fno if self.batch_norm => {
                plain().with_block(FnoBlock::BatchNorm).with_activation(Activation::Relu)
            }
            OperatorModel::Fno | OperatorModel::Conv => plain(),
            OperatorModel::Neuraloperator => plain()
                .with_frequencies(FnoFrequencies::Centred)
                .with_positions(FnoPositions::Periodic)
                .with_lifting_channels(self.widths.first().map(|width| width.saturating_mul(2)).into_iter().collect())
                .with_block(FnoBlock::ChannelMlp(0.5)),
        };
        let config = match self.model {
            OperatorModel::Fno | OperatorModel::Neuraloperator if factor > 1 => config.with_upsampling(Some(refining)),
            _ => config,
        };
        config.with_projection_channels(self.projection_channels.clone()).with_rank(self.rank)
    }
}

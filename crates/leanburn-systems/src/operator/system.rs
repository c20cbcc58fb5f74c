//! Neural operators as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::{SequenceConfig, SequenceDataset};
use leanburn_train::{ForecastBatch, ForecastWorkload, Learner};

use super::evaluation::{LEADS, PERSISTENCE, Scores, last_field};
use super::network::AnyOperator;
use super::section::{OperatorModel, OperatorSection};
use crate::error::Result;
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::field_predictor::FieldPredictor;
use crate::picture::fields;
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, check_shape, forecast, learner, of_section, policy_and_seed};
use crate::system::{ModelChange, System, TrainedOn, half};
use crate::yaml::Section;

impl System for OperatorSection {
    type Batch = ForecastBatch;
    type Workload = ForecastWorkload<AnyOperator>;

    const NAME: &'static str = "operator";
    const SOURCE: Source = Source::Fields;
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "navier-stokes-fno",
        about: "a Fourier neural operator that predicts flows on any grid: minutes on a CPU",
        text: include_str!("../../recipes/navier-stokes-fno.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "prediction",
        caption: "truth, prediction, what it is compared with (the last field seen, or bicubic interpolation), and the prediction's \
                  absolute difference",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Prediction",
            y_label: "relative L2 error",
            log_y: true,
            train: &[("training loss", "forecast")],
            validation: &["relative_l2", PERSISTENCE],
        },
        Curves {
            title: "Skill",
            y_label: "1 is perfect, 0 is persistence or bicubic interpolation",
            log_y: false,
            train: &[],
            validation: &["skill"],
        },
        Curves {
            title: "Energy of the shortest waves",
            y_label: "the prediction's by the truth's, and how far that is off",
            log_y: false,
            train: &[],
            validation: &["top_octave_ratio", "top_octave_error"],
        },
        Curves {
            title: "Prediction, by how far ahead",
            y_label: "relative L2 error",
            log_y: true,
            train: &[],
            validation: &LEADS,
        },
    ];
    const ERRORS: &'static [&'static str] = &["relative_l2", "top_octave_error"];
    const SMALLER_EVALUATION: &'static str = "smaller widths or a coarser grid of the sequence";

    fn read(section: &mut Section<'_>, on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section, on.sequence.unwrap_or(&SequenceConfig::default()))
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let mut errors = self.network(&context.fields()).validate();
        errors.extend(self.unsuited(context.fields().sample_factor));
        let fields = [
            ("upsampling", "sequence.sample_factor"),
            ("out_channels", "sequence.predict_days"),
            ("channels", "operator.widths"),
            ("num_blocks", "operator.num_layers"),
        ];
        of_section(errors, Self::NAME, &fields)
    }

    fn training(&self) -> &TrainingSection {
        &self.training.common
    }

    fn training_mut(&mut self) -> &mut TrainingSection {
        &mut self.training.common
    }

    fn in_channels(&self) -> usize {
        self.in_channels
    }

    fn build(&self, context: &Context<'_>, device: &Device) -> Result<Self::Workload> {
        let (model, training) = (self.network(&context.fields()), &self.training.common);
        let segments = || Ok(model.init(&Device::flex()).segments());
        let chains = || model.init(&Device::flex()).unstreamable();
        let policy = policy_and_seed(context, Self::NAME, training, device, |_| false, segments, chains)?;
        let learner = learner(context, training, training.learning_rate);
        let learner = Learner::new("operator", model.init(device).with_residency(policy), learner)?;
        let loss = self.training.objective.operator_loss;
        Ok(ForecastWorkload::new(learner, loss, context.device.resolved_precision()))
    }

    fn predictor(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<FieldPredictor>> {
        let model = self.network(&context.fields()).init(device);
        FieldPredictor::load(model, context, weights, device).map(Some)
    }

    fn check_sample(&self, name: &str, [channels, _, height, width]: [usize; 4]) -> Result<()> {
        let fields = SequenceConfig { input_days: 1, predict_days: 1, ..SequenceConfig::default() };
        check_shape(name, [channels, 1, height, width], |input| self.network(&fields).check_input(input))
    }

    fn evaluate(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<Metrics> {
        let mut scores = Scores::default();
        for index in 0..data.val_len() {
            let window = data.val_window(index)?;
            scores.add(&forecast(workload, &window, device), &data.persistence(&window)?, &window)?;
        }
        scores.metrics()
    }

    /// The last day of a window.
    fn picture(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<RgbImage> {
        let window = if data.val_len() > 0 { data.val_window(0)? } else { data.train_window(0)? };
        let (prediction, baseline) = (forecast(workload, &window, device), data.persistence(&window)?);
        let (field, size) = last_field(&window);
        let name = if data.config().sample_factor > 1 { "bicubic" } else { "last seen" };
        let columns =
            [("truth", &window.target[field..]), ("prediction", &prediction[field..]), (name, &baseline[field..])];
        Ok(fields(columns, size)?)
    }

    /// Half of the widths, half of the frequencies, factors in place of weights.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let change = |text: String, cost, section| ModelChange { text, cost, section };
        let mut changes = Vec::new();
        let widths = half(&self.widths);
        if widths != self.widths {
            let text = format!("{}.widths = {widths:?}", Self::NAME);
            changes.push(change(text, "a smaller model: a quarter of the weights", Self { widths, ..self.clone() }));
        }
        if self.model == OperatorModel::Conv {
            return changes;
        }
        let modes: Vec<[usize; 2]> = self.modes.iter().map(|modes| modes.map(|count| count.div_ceil(2))).collect();
        if modes != self.modes {
            let text = format!("{}.modes = {modes:?}", Self::NAME);
            changes.push(change(text, "a smaller model: half of the frequencies", Self { modes, ..self.clone() }));
        }
        if self.rank.is_none() {
            let text = format!("{}.rank = 0.1", Self::NAME);
            let section = Self { rank: Some(0.1), ..self.clone() };
            changes.push(change(text, "another model: a tenth of the spectral weights, as Tucker factors", section));
        }
        changes
    }
}

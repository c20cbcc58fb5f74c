//! Forecasters as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::metrics::{mean_absolute_error, root_mean_squared_error, skill};
use leanburn_data::{SequenceConfig, SequenceDataset};
use leanburn_train::{ForecastWorkload, Learner};

use super::model::AnyForecaster;
use super::section::{ForecasterSection, ModelType};
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::field_predictor::FieldPredictor;
use crate::picture::fields;
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, forecast, learner, of_section, policy_and_seed};
use crate::system::{FlatKey, ModelChange, NamedSize, System, TrainedOn};
use crate::yaml::Section;

/// A key of the climate guide's file.
const fn flat(key: &'static str, section: &'static str, is_telling: bool) -> FlatKey {
    FlatKey { key, section, is_telling }
}

impl System for ForecasterSection {
    type Batch = (Tensor<5>, Tensor<4>);
    type Workload = ForecastWorkload<AnyForecaster>;

    const NAME: &'static str = "forecaster";
    const SOURCE: Source = Source::Fields;
    const FLAT_KEYS: &'static [FlatKey] = &[
        flat("model_type", "forecaster", true),
        flat("hidden_channels", "forecaster", false),
        flat("input_days", "sequence", true),
        flat("predict_days", "sequence", false),
        flat("use_channels", "sequence", false),
    ];
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "convlstm-advection",
        about: "a forecaster of fields that a flow carries along: minutes on a CPU",
        text: include_str!("../../recipes/convlstm-advection.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "forecast",
        caption: "truth, forecast, last field seen, and the forecast's absolute difference",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Forecast",
            y_label: "error",
            log_y: true,
            train: &[("training loss", "forecast")],
            validation: &["rmse", "mae"],
        },
        Curves {
            title: "Skill",
            y_label: "1 is perfect, 0 is persistence",
            log_y: false,
            train: &[],
            validation: &["skill"],
        },
    ];
    const ERRORS: &'static [&'static str] = &["rmse", "mae"];
    const SMALLER_EVALUATION: &'static str = "a smaller hidden_channels or input_days";
    /// The forecasters at the size of their guide: 20 days of four channels, batches of 4.
    const GUIDE: Option<&'static str> = Some(
        "\
forecaster: {training: {batch_size: 4}}
sequence: {advection: {shape: [64, 64]}, input_days: 20}
device: {name: flex}
",
    );

    fn read(section: &mut Section<'_>, on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section, on.sequence.unwrap_or(&SequenceConfig::default()))
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let errors = self.model(context.fields().predict_days).validate();
        of_section(errors, Self::NAME, &[("predict_days", "sequence.predict_days")])
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
        let training = &self.training.common;
        let SequenceConfig { input_days, predict_days, .. } = context.fields();
        let model = self.model(predict_days);
        let segments = || Ok(model.init(&Device::flex()).segments(input_days));
        let policy = policy_and_seed(context, Self::NAME, training, device, |_| false, segments, Vec::new)?;
        let learner = learner(context, training, training.learning_rate);
        let learner = Learner::new("forecaster", model.init(device).with_residency(policy), learner)?;
        Ok(ForecastWorkload::new(learner, self.training.objective.forecast_loss, context.device.resolved_precision()))
    }

    fn predictor(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<FieldPredictor>> {
        let model = self.model(context.fields().predict_days).init(device);
        FieldPredictor::load(model, context, weights, device).map(Some)
    }

    fn check_sample(&self, name: &str, [channels, ..]: [usize; 4]) -> Result<()> {
        if channels == self.in_channels {
            return Ok(());
        }
        Err(SystemError::Input {
            subject: name.to_string(),
            expected: format!("{} channels, as forecaster.in_channels says", self.in_channels),
            found: channels.to_string(),
            remedy: "set forecaster.in_channels, or name the channels in sequence.use_channels".into(),
        })
    }

    /// Errors over all windows together, and skill against the last field that is seen.
    fn evaluate(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<Metrics> {
        let (mut forecasts, mut truth, mut persistence) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..data.val_len() {
            let window = data.val_window(index)?;
            forecasts.extend(forecast(workload, &window, device));
            persistence.extend(data.persistence(&window)?);
            truth.extend(window.target);
        }
        if truth.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![
            ("rmse", root_mean_squared_error(&forecasts, &truth)?),
            ("mae", mean_absolute_error(&forecasts, &truth)?),
            ("skill", skill(&forecasts, &truth, &persistence)?),
        ])
    }

    /// The last day of a window: truth, forecast, and the last field that is seen.
    fn picture(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<RgbImage> {
        let window = if data.val_len() > 0 { data.val_window(0)? } else { data.train_window(0)? };
        let [.., height, width] = window.target_shape;
        let forecast = forecast(workload, &window, device);
        let persistence = data.persistence(&window)?;
        let last = window.target.len() - height * width;
        let columns =
            [("truth", &window.target[last..]), ("forecast", &forecast[last..]), ("last seen", &persistence[last..])];
        Ok(fields(columns, [height, width])?)
    }

    /// The guide's smaller forecasters.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let smaller = ModelType::ALL.into_iter().skip_while(|model| *model != self.model_type).skip(1);
        let change = |model_type: ModelType| ModelChange {
            text: format!("forecaster.model_type = {}", model_type.name()),
            cost: "another model",
            section: Self { model_type, ..self.clone() },
        };
        smaller.map(change).collect()
    }

    /// Each forecaster, otherwise as configured.
    fn sizes(&self) -> Vec<NamedSize<Self>> {
        let batch_size = self.training.common.batch_size;
        let size = |model_type: ModelType| NamedSize {
            name: format!("{}, batch {batch_size}", model_type.name()),
            section: Self { model_type, ..self.clone() },
            precision: None,
        };
        ModelType::ALL.map(size).into()
    }
}

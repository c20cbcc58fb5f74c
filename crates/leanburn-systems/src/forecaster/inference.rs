//! From fields to those that follow: a trained forecaster.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::{Intensity, Sequence, SequenceConfig};
use leanburn_nn::{numerics::widen, weights};
use leanburn_train::{Forecaster, Precision};

use super::model::AnyForecaster;
use super::section::ForecasterSection;
use crate::error::Result;
use crate::run_folder::RunFolder;
use crate::shared::{Context, reject};
use crate::system::System;

/// A trained forecaster, with what its fields were normalized by.
#[derive(Debug)]
pub struct FieldForecaster {
    model: AnyForecaster,
    fields: SequenceConfig,
    channels: Vec<Intensity>,
    precision: Precision,
    device: Device,
}

impl FieldForecaster {
    /// The forecaster of a section with weights from the folder of a run, on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Weights`](crate::SystemError::Weights), and
    /// [`SystemError::Input`](crate::SystemError::Input) where `normalization.json` does not lie beside the weights.
    pub fn load(section: &ForecasterSection, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Self> {
        reject(context, section.validate(context))?;
        let fields = context.fields();
        let mut model = section.model(fields.predict_days).init(device);
        weights::load(&mut model, weights)?;
        let channels = RunFolder::normalization_beside(weights)?;
        Ok(Self { model, fields, channels, precision: context.device.resolved_precision(), device: device.clone() })
    }

    /// The fields of the days after the last ones of a sequence, in its units.
    ///
    /// # Shapes
    ///
    /// `[time, channels, height, width]`, of at least `input_days` fields with the channels of the training files, to
    /// `[predict_days, 1, height, width]` of the channel that is predicted, on the grid that `downsample` makes.
    ///
    /// # Errors
    ///
    /// If there are too few fields, or channels that were trained on are missing.
    pub fn predict(&self, sequence: &Sequence) -> Result<Sequence> {
        let seen = self.fields.prepare(sequence.last(self.fields.input_days)?)?.scaled(&self.channels, false)?;
        let [days, channels, height, width] = seen.shape();
        let input = TensorData::new(seen.data().to_vec(), [1, days, channels, height, width]);
        let input: Tensor<5> = Tensor::from_data(input, &self.device);
        let forecast = widen(self.model.forecast(self.precision.cast(input)));
        let values = forecast.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32");
        let forecast = Sequence::new(values, [self.fields.predict_days, 1, height, width])?;
        Ok(forecast.scaled(&[self.channels[self.target()]], true)?)
    }

    /// The channel that is predicted, among those that are seen.
    fn target(&self) -> usize {
        let target = self.fields.target_channel.unwrap_or_default();
        match &self.fields.use_channels[..] {
            [] => target,
            channels => channels.iter().position(|channel| *channel == target).unwrap_or_default(),
        }
    }
}

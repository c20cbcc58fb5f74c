//! From fields to those that follow, or to finer ones: a trained forecaster or operator.

use std::fmt::Debug;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::{Intensity, Sequence, SequenceConfig};
use leanburn_nn::numerics::widen;
use leanburn_nn::weights::{self, MonaiWeights};
use leanburn_train::{Forecaster, Precision};

use crate::error::{Result, SystemError};
use crate::normalization;
use crate::shared::Context;

/// A trained model of fields, with what its fields were normalized by.
///
/// An operator takes fields of any grid, others those of the grid that they were trained on.
#[derive(Debug)]
pub struct FieldPredictor {
    model: Box<dyn Predict>,
    fields: SequenceConfig,
    channels: Vec<Intensity>,
    precision: Precision,
    device: Device,
}

/// [`Forecaster`] behind a pointer.
trait Predict: Debug {
    fn predict(&self, fields: Tensor<5>) -> Tensor<4>;
}

impl<M: Forecaster> Predict for M {
    fn predict(&self, fields: Tensor<5>) -> Tensor<4> {
        self.forecast(fields)
    }
}

impl FieldPredictor {
    /// A model with weights from the folder of a run, on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Weights`], and [`SystemError::Input`] where `normalization.json` does not lie beside the weights.
    pub(crate) fn load<M: Forecaster + MonaiWeights + 'static>(
        mut model: M,
        context: &Context<'_>,
        weights: &Path,
        device: &Device,
    ) -> Result<Self> {
        weights::load(&mut model, weights)?;
        let (fields, channels) = (context.fields(), normalization::beside(weights)?);
        let precision = context.device.resolved_precision();
        Ok(Self { model: Box::new(model), fields, channels, precision, device: device.clone() })
    }

    /// Reads a file of fields as those that the model was trained on, with their `data_key` and `axes`, on any grid.
    ///
    /// # Errors
    ///
    /// As [`SequenceConfig::read`].
    pub fn read(&self, path: &Path) -> Result<Sequence> {
        let as_it_is = SequenceConfig { shape: None, use_channels: Vec::new(), downsample: 1, ..self.fields.clone() };
        Ok(as_it_is.read(path)?)
    }

    /// The fields after the last ones of a sequence, in its units; of a model that refines the grid, each field of it on the fine grid.
    ///
    /// With several `steps` each takes the predictions of those before as fields that were seen.
    ///
    /// # Shapes
    ///
    /// `[time, channels, height, width]`, of at least `input_days` fields with the channels of the training files, to
    /// `[steps x predict_days, 1, height, width]` of the channel that is predicted, on the grid that `downsample` makes; to
    /// `[time, 1, sample_factor x height, sample_factor x width]` of a model that refines.
    ///
    /// # Errors
    ///
    /// If there are too few fields, channels that were trained on are missing, fields were normalized place by place on another grid, or
    /// the model cannot go on from what it predicts.
    pub fn predict(&self, sequence: &Sequence, steps: usize) -> Result<Sequence> {
        let frames = if self.refines() { sequence.shape()[0] } else { self.fields.input_days };
        let seen = self.fields.prepare(sequence.last(frames)?)?;
        let [time, channels, height, width] = seen.shape();
        self.check_steps(steps, channels)?;
        let intensities = self.intensities(channels, [height, width])?;
        let mut seen = seen.scaled(&intensities, false)?.data().to_vec();
        let mut predicted = Vec::new();
        let inputs = if self.refines() { time } else { steps };
        let window = self.fields.input_days * channels * height * width;
        let factor = self.fields.sample_factor;
        for input in 0..inputs {
            // the next window begins where the last one did, or as many fields later as were predicted
            let first = if self.refines() { input * window } else { seen.len() - window };
            let shape = [1, self.fields.input_days, channels, height, width];
            let values = self.forward(seen[first..first + window].to_vec(), shape);
            if !self.refines() {
                seen.extend_from_slice(&values);
            }
            predicted.extend(values);
        }
        let size = [height, width].map(|length| length * factor);
        let frames = predicted.len() / (size[0] * size[1]);
        let predicted = Sequence::new(predicted, [frames, 1, size[0], size[1]])?;
        Ok(predicted.scaled(&self.of_target(size), true)?)
    }

    /// Whether a prediction is the field that is seen, on a finer grid.
    fn refines(&self) -> bool {
        self.fields.sample_factor > 1
    }

    /// What the model makes of normalized fields.
    fn forward(&self, values: Vec<f32>, shape: [usize; 5]) -> Vec<f32> {
        let input: Tensor<5> = Tensor::from_data(TensorData::new(values, shape), &self.device);
        let prediction = widen(self.model.predict(self.precision.cast(input)));
        prediction.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32")
    }

    /// That predictions can be seen again, where they are.
    fn check_steps(&self, steps: usize, channels: usize) -> Result<()> {
        let reject = |expected: &str, found: String| {
            let (subject, expected) = ("the number of steps".into(), expected.to_owned());
            let remedy = "predict one step, or train a model whose only channel is the predicted one".into();
            Err(SystemError::Input { subject, expected, found, remedy })
        };
        match steps {
            0 => reject("at least 1", "0".into()),
            1 => Ok(()),
            _ if self.refines() => reject("1 of a model that refines the grid", steps.to_string()),
            _ if channels > 1 => reject(
                "1 of a model that sees channels that it does not predict",
                format!("{steps}, with {channels} channels seen and one predicted"),
            ),
            _ => Ok(()),
        }
    }

    /// What normalizing does to the fields that are seen, on a grid of this size.
    fn intensities(&self, channels: usize, size: [usize; 2]) -> Result<Vec<Intensity>> {
        let places = |[height, width]: [usize; 2]| height * width;
        let finer = size.map(|length| length * self.fields.sample_factor);
        if self.fields.pointwise && self.channels.len() != channels * places(finer) {
            return Err(SystemError::Input {
                subject: "the fields".into(),
                expected: format!(
                    "the grid that was trained on, of {} places, as `sequence.pointwise` normalizes each place by its own",
                    self.channels.len() / channels / (self.fields.sample_factor * self.fields.sample_factor)
                ),
                found: format!("{} x {}", size[0], size[1]),
                remedy: "give fields on that grid, or train with `sequence.pointwise: false` (DiffSR's `GN`)".into(),
            });
        }
        match self.refines() {
            true => Ok(self.fields.coarse_intensities(&self.channels, finer)?),
            false => Ok(self.channels.clone()),
        }
    }

    /// What normalizing did to the channel that is predicted, or to each of its places.
    fn of_target(&self, [height, width]: [usize; 2]) -> Vec<Intensity> {
        let target = self.target();
        match self.fields.pointwise {
            true => self.channels[target * height * width..(target + 1) * height * width].to_vec(),
            false => vec![self.channels[target]],
        }
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

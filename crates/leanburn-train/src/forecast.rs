//! Training of forecasters: from a sequence of fields to the next ones.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::WindowBatch;
use leanburn_nn::losses::{Difference, relative_l2_loss};
use leanburn_nn::models::{Cnn3dLstm, ConvLstm, ConvNet, Fno};
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;

use crate::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

/// A micro-batch: the input, `[batch_size, input_days, channels, height, width]`, and what is to be predicted,
/// `[batch_size, predict_days, height, width]`.
pub type ForecastBatch = (Tensor<5>, Tensor<4>);

/// A batch of the data pipeline as tensors on the device.
///
/// # Panics
///
/// Panics if the target has other than one channel.
pub fn windows(batch: WindowBatch, device: &Device) -> ForecastBatch {
    let [batch_size, predict_days, channels, height, width] = batch.target_shape;
    assert_eq!(channels, 1, "a forecaster predicts one channel; set target_channel");
    let input = Tensor::from_data(TensorData::new(batch.input, batch.input_shape), device);
    let target = TensorData::new(batch.target, [batch_size, predict_days, height, width]);
    (input, Tensor::from_data(target, device))
}

/// A model that predicts fields from those before, or finer ones.
pub trait Forecaster: Module {
    /// `[batch_size, predict_days, height, width]` from `[batch_size, input_days, channels, height, width]`; height and width are larger
    /// where the model refines the grid.
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4>;
}

impl Forecaster for ConvLstm {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        self.forward(fields)
    }
}

impl Forecaster for Cnn3dLstm {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        self.forward(fields)
    }
}

/// The days that are seen are channels of an operator's input, and those that are predicted of its output.
impl Forecaster for Fno {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        as_channels(fields, |fields| self.forward(fields))
    }
}

/// As of an operator.
impl Forecaster for ConvNet {
    fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        as_channels(fields, |fields| self.forward(fields))
    }
}

/// What a model of planes makes of the days of fields as its channels, with its channels as days.
fn as_channels(fields: Tensor<5>, forward: impl FnOnce(Tensor<5>) -> Tensor<5>) -> Tensor<4> {
    let [batch_size, days, channels, height, width] = fields.dims();
    let forecast = forward(fields.reshape([batch_size, days * channels, 1, height, width]));
    let [_, days, _, height, width] = forecast.dims();
    forecast.reshape([batch_size, days, height, width])
}

/// How a forecast is compared with the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ForecastLoss {
    /// Value by value.
    Difference(Difference),
    /// By the L2 norm of each item, as [`relative_l2_loss`] does.
    RelativeL2,
}

impl From<Difference> for ForecastLoss {
    fn from(difference: Difference) -> Self {
        Self::Difference(difference)
    }
}

impl ForecastLoss {
    fn compare(self, forecast: Tensor<4>, target: Tensor<4>) -> Tensor<1> {
        match self {
            Self::Difference(difference) => difference.of(forecast, target).mean(),
            Self::RelativeL2 => relative_l2_loss(forecast, target),
        }
    }
}

/// A forecaster and its optimizer.
#[derive(Debug)]
pub struct ForecastWorkload<M: Forecaster> {
    forecaster: Learner<M>,
    loss: ForecastLoss,
    precision: Precision,
}

impl<M: Forecaster> ForecastWorkload<M> {
    /// Puts the parts together.
    pub fn new(forecaster: Learner<M>, loss: impl Into<ForecastLoss>, precision: Precision) -> Self {
        Self { forecaster, loss: loss.into(), precision }
    }

    /// The forecast by the trained weights, in f32.
    pub fn forecast(&self, fields: Tensor<5>) -> Tensor<4> {
        widen(self.forecaster.trained().forecast(self.precision.cast(without_autodiff(fields))))
    }
}

impl<M: Forecaster> Workload for ForecastWorkload<M> {
    type Batch = ForecastBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.forecaster]
    }

    fn loss(&mut self, _learner: usize, (fields, target): &ForecastBatch, _position: StepPosition) -> Option<Losses> {
        let forecast = self.forecaster.module().forecast(self.precision.cast(fields.clone()));
        let loss = self.loss.compare(forecast, target.clone());
        Some(Losses::of(loss.clone(), vec![("forecast", loss)]))
    }
}

impl<M: Forecaster> MainModel for ForecastWorkload<M> {
    type Model = M;

    fn model(&self) -> &Learner<M> {
        &self.forecaster
    }

    fn model_mut(&mut self) -> &mut Learner<M> {
        &mut self.forecaster
    }
}

//! Training of an operator.

use burn::tensor::Tensor;
use leanburn_nn::losses::{relative_l2_loss, voxel_loss};
use leanburn_nn::models::Fno;
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;
use leanburn_train::{AnyLearner, ForecastBatch, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::section::OperatorLoss;

/// An operator and its optimizer.
#[derive(Debug)]
pub struct OperatorWorkload {
    model: Learner<Fno>,
    loss: OperatorLoss,
    precision: Precision,
}

impl OperatorWorkload {
    /// Puts the parts together.
    pub fn new(model: Learner<Fno>, loss: OperatorLoss, precision: Precision) -> Self {
        Self { model, loss, precision }
    }

    /// What the trained weights make of fields, in f32.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, input_days, channels, height, width]`
    /// - output: `[batch_size, predict_days, height, width]`, on a grid that is finer by `sequence.sample_factor`
    pub fn predict(&self, fields: Tensor<5>) -> Tensor<4> {
        widen(predict(&self.model.trained(), self.precision.cast(without_autodiff(fields))))
    }
}

impl Workload for OperatorWorkload {
    type Batch = ForecastBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.model]
    }

    fn loss(&mut self, _learner: usize, (fields, target): &ForecastBatch, _position: StepPosition) -> Option<Losses> {
        let prediction = predict(self.model.module(), self.precision.cast(fields.clone()));
        let loss = match self.loss.difference() {
            None => relative_l2_loss(prediction, target.clone()),
            Some(difference) => voxel_loss(prediction, target.clone(), difference, None),
        };
        Some(Losses::of(loss.clone(), vec![("prediction", loss)]))
    }
}

impl MainModel for OperatorWorkload {
    type Model = Fno;

    fn model(&self) -> &Learner<Fno> {
        &self.model
    }

    fn model_mut(&mut self) -> &mut Learner<Fno> {
        &mut self.model
    }
}

/// The days that are seen become channels, as do those that are predicted.
fn predict(model: &Fno, fields: Tensor<5>) -> Tensor<4> {
    let [batch_size, days, channels, height, width] = fields.dims();
    let predicted = model.forward(fields.reshape([batch_size, days * channels, 1, height, width]));
    let [_, days, _, height, width] = predicted.dims();
    predicted.reshape([batch_size, days, height, width])
}

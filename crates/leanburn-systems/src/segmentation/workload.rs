//! Training of the model.

use burn::tensor::{Int, Tensor};
use leanburn_nn::losses::DiceCeLoss;
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;
use leanburn_train::{AnyLearner, Learner, Losses, Precision, StepPosition, Workload};

use super::network::Network;

/// A model and its optimizer; its loss is Dice loss plus cross-entropy.
#[derive(Debug)]
pub struct SegmentationWorkload {
    model: Learner<Network>,
    loss: DiceCeLoss,
    precision: Precision,
}

impl SegmentationWorkload {
    /// Puts the parts together.
    pub fn new(model: Learner<Network>, loss: DiceCeLoss, precision: Precision) -> Self {
        Self { model, loss, precision }
    }

    /// The model's learner.
    pub fn model(&self) -> &Learner<Network> {
        &self.model
    }

    /// The model's learner, to change.
    pub fn model_mut(&mut self) -> &mut Learner<Network> {
        &mut self.model
    }

    /// The logits of volumes by the trained weights, deterministic, in f32.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, num_classes, depth, height, width]`
    pub fn logits(&self, volumes: Tensor<5>) -> Tensor<5> {
        widen(self.model.trained().forward(self.precision.cast(without_autodiff(volumes))))
    }
}

impl Workload for SegmentationWorkload {
    /// Volumes, `[batch_size, in_channels, depth, height, width]`, and the classes of their voxels,
    /// `[batch_size, depth, height, width]`.
    type Batch = (Tensor<5>, Tensor<4, Int>);

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.model]
    }

    fn loss(&mut self, _learner: usize, (volumes, labels): &Self::Batch, _position: StepPosition) -> Option<Losses> {
        let logits = self.model.module().forward(self.precision.cast(volumes.clone()));
        let loss = self.loss.forward(logits, labels.clone());
        Some(Losses::of(loss.clone(), vec![("dice_ce", loss)]))
    }
}

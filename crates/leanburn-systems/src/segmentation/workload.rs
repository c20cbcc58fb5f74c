//! Training of the model.

use burn::tensor::{Int, Tensor};
use leanburn_nn::losses::{DiceCeLoss, deep_supervision_loss};
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;
use leanburn_train::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::supervised::SupervisedNetwork;

/// A model and its optimizer; its loss is Dice loss plus cross-entropy, at each level of the decoder that is supervised.
#[derive(Debug)]
pub struct SegmentationWorkload {
    model: Learner<SupervisedNetwork>,
    loss: DiceCeLoss,
    precision: Precision,
}

impl SegmentationWorkload {
    /// Puts the parts together.
    pub fn new(model: Learner<SupervisedNetwork>, loss: DiceCeLoss, precision: Precision) -> Self {
        Self { model, loss, precision }
    }

    /// The logits of volumes by the trained weights, deterministic, in f32.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, num_classes, depth, height, width]`
    pub fn logits(&self, volumes: Tensor<5>) -> Tensor<5> {
        widen(self.model.trained().network.forward(self.precision.cast(without_autodiff(volumes))))
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
        let levels = self.model.module().forward(self.precision.cast(volumes.clone()));
        let losses = self.loss.forward_levels(levels, labels);
        let mut reported = vec![("dice_ce", losses[0].clone())];
        if losses.len() == 1 {
            return Some(Losses::of(losses[0].clone(), reported));
        }
        let loss = deep_supervision_loss(losses);
        reported.push(("deep_supervision", loss.clone()));
        Some(Losses::of(loss, reported))
    }
}

impl MainModel for SegmentationWorkload {
    type Model = SupervisedNetwork;

    fn model(&self) -> &Learner<SupervisedNetwork> {
        &self.model
    }

    fn model_mut(&mut self) -> &mut Learner<SupervisedNetwork> {
        &mut self.model
    }
}

//! Training of the discrete autoencoder.
//!
//! [Neural Discrete Representation Learning](https://arxiv.org/abs/1711.00937): reconstruction and commitment loss. The
//! codebook follows running averages of the latent; it is part of the weights in checkpoints, and of the running
//! statistics that a step which is left out puts back.

use burn::tensor::{Int, Tensor};
use leanburn_nn::losses::VoxelLoss;
use leanburn_nn::models::VqVae3d;
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;

use crate::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

/// A discrete autoencoder and its optimizer.
#[derive(Debug)]
pub struct VqVaeWorkload {
    vq_vae: Learner<VqVae3d>,
    loss: VoxelLoss,
    precision: Precision,
}

impl VqVaeWorkload {
    /// Puts the parts together.
    pub fn new(vq_vae: Learner<VqVae3d>, loss: VoxelLoss, precision: Precision) -> Self {
        Self { vq_vae, loss, precision }
    }

    /// The reconstruction of volumes by the trained weights, deterministic, in f32.
    pub fn reconstruct(&self, volumes: Tensor<5>) -> Tensor<5> {
        widen(self.vq_vae.trained().forward(self.precision.cast(without_autodiff(volumes))).0)
    }

    /// The codes of volumes by the trained weights, `[batch_size, ..]`.
    pub fn codes(&self, volumes: Tensor<5>) -> Tensor<4, Int> {
        self.vq_vae.trained().index_quantize(self.precision.cast(without_autodiff(volumes)))
    }
}

impl Workload for VqVaeWorkload {
    /// Volumes, `[batch_size, channels, depth, height, width]`.
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.vq_vae]
    }

    fn loss(&mut self, _learner: usize, volumes: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        let (reconstruction, commitment) = self.vq_vae.module().forward(self.precision.cast(volumes.clone()));
        let distance = self.loss.forward(reconstruction, volumes.clone());
        let parts = vec![("reconstruction", distance.clone()), ("commitment", commitment.clone())];
        Some(Losses::of(distance + commitment, parts))
    }
}

impl MainModel for VqVaeWorkload {
    type Model = VqVae3d;

    fn model(&self) -> &Learner<VqVae3d> {
        &self.vq_vae
    }

    fn model_mut(&mut self) -> &mut Learner<VqVae3d> {
        &mut self.vq_vae
    }
}

//! Training of the U-Net on latents.

use burn::tensor::Tensor;
use leanburn_nn::losses::{Difference, l1_loss, l2_loss};
use leanburn_nn::models::{DiffusionConditions, DiffusionUNet3d};
use leanburn_nn::numerics::widen;
use leanburn_ops::random;
use leanburn_train::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::noise::{Noise, Noisy};

/// Mean and deviation of latents, `[batch_size, channels, depth, height, width]` both: what is trained on is drawn anew each time.
pub type LatentBatch = (Tensor<5>, Tensor<5>);

/// A diffusion model of latents and its optimizer.
#[derive(Debug)]
pub struct DiffusionWorkload {
    unet: Learner<DiffusionUNet3d>,
    noise: Noise,
    loss: Difference,
    precision: Precision,
}

impl DiffusionWorkload {
    pub(super) fn new(unet: Learner<DiffusionUNet3d>, noise: Noise, loss: Difference, precision: Precision) -> Self {
        Self { unet, noise, loss, precision }
    }

    pub(super) fn noise(&self) -> &Noise {
        &self.noise
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    /// The loss of a network on noisy latents.
    pub(super) fn loss_of(&self, unet: &DiffusionUNet3d, noisy: Noisy) -> Tensor<1> {
        let Noisy { input, times, target } = noisy;
        let prediction = predict(unet, self.precision, input, times);
        match self.loss {
            Difference::L1 => l1_loss(prediction, target),
            Difference::L2 => l2_loss(prediction, target),
        }
    }
}

/// What a network gives, in f32.
pub(super) fn predict(unet: &DiffusionUNet3d, precision: Precision, input: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
    widen(unet.forward(precision.cast(input), times, DiffusionConditions::default()))
}

impl Workload for DiffusionWorkload {
    type Batch = LatentBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.unet]
    }

    fn loss(&mut self, _learner: usize, (mean, deviation): &LatentBatch, _position: StepPosition) -> Option<Losses> {
        let (shape, device) = (mean.dims(), mean.device());
        let latents = mean.clone() + deviation.clone() * random::normal(shape, &device);
        let noise = random::normal(shape, &device);
        let noisy = self.noise.add(latents, noise, self.noise.draw(shape, &device));
        let loss = self.loss_of(self.unet.module(), noisy);
        Some(Losses::of(loss.clone(), vec![("denoising", loss)]))
    }
}

impl MainModel for DiffusionWorkload {
    type Model = DiffusionUNet3d;

    fn model(&self) -> &Learner<DiffusionUNet3d> {
        &self.unet
    }

    fn model_mut(&mut self) -> &mut Learner<DiffusionUNet3d> {
        &mut self.unet
    }
}

//! Training of the U-Net on latents.

use burn::tensor::Tensor;
use leanburn_nn::losses::{Difference, l1_loss, l2_loss};
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_ops::random;
use leanburn_ops::recording::valid;
use leanburn_train::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::consistency::{Beside, Consistency};
use super::noise::{Noise, Noisy, predict};

/// Mean and deviation of latents, `[batch_size, channels, depth, height, width]` both: what is trained on is drawn anew each time.
pub type LatentBatch = (Tensor<5>, Tensor<5>);

/// A diffusion model of latents, or a consistency model, and its optimizer.
#[derive(Debug)]
pub struct DiffusionWorkload {
    unet: Learner<DiffusionUNet3d>,
    noise: Noise,
    objective: Objective,
    precision: Precision,
}

/// What the U-Net is trained for.
#[derive(Debug)]
pub(super) enum Objective {
    /// To say what the noise is.
    Denoising(Difference),
    /// To say the same of less noise.
    Consistency(Consistency),
}

impl DiffusionWorkload {
    pub(super) fn new(
        unet: Learner<DiffusionUNet3d>,
        noise: Noise,
        objective: Objective,
        precision: Precision,
    ) -> Self {
        Self { unet, noise, objective, precision }
    }

    pub(super) fn noise(&self) -> &Noise {
        &self.noise
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    /// The loss of the trained weights on latents with standard normal noise, of which a share of all noise levels have less; all without
    /// autodiff.
    pub(super) fn loss_at(
        &self,
        unet: &DiffusionUNet3d,
        latents: Tensor<5>,
        noise: Tensor<5>,
        share: f64,
    ) -> Tensor<1> {
        let device = latents.device();
        match &self.objective {
            Objective::Denoising(difference) => {
                let level = Tensor::full([1], self.noise.at(share), &device);
                self.denoising_loss(unet, self.noise.add(latents, noise, level), *difference)
            }
            Objective::Consistency(consistency) => {
                let beside = Beside { target: unet, teacher: self.unet.teacher(), precision: self.precision };
                consistency.loss(unet, (latents, noise, consistency.at(share, &device)), &beside)
            }
        }
    }

    fn denoising_loss(&self, unet: &DiffusionUNet3d, noisy: Noisy, difference: Difference) -> Tensor<1> {
        let Noisy { input, times, target } = noisy;
        let prediction = predict(unet, self.precision, input, times);
        match difference {
            Difference::L1 => l1_loss(prediction, target),
            Difference::L2 => l2_loss(prediction, target),
        }
    }
}

impl Workload for DiffusionWorkload {
    type Batch = LatentBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.unet]
    }

    fn loss(&mut self, _learner: usize, (mean, deviation): &LatentBatch, position: StepPosition) -> Option<Losses> {
        let (shape, device) = (mean.dims(), mean.device());
        let latents = mean.clone() + deviation.clone() * random::normal(shape, &device);
        let noise = random::normal(shape, &device);
        let model = self.unet.module();
        let (name, loss) = match &self.objective {
            Objective::Denoising(difference) => {
                let noisy = self.noise.add(latents, noise, self.noise.draw(shape, &device));
                ("denoising", self.denoising_loss(model, noisy, *difference))
            }
            Objective::Consistency(consistency) => {
                let sigmas = consistency.draw(position.step, shape[0], &device);
                // the same tensors, without autodiff: nothing is copied, and nothing saved
                let itself = self.unet.target().is_none().then(|| valid(model));
                let target = itself.as_ref().or(self.unet.target()).expect("there is one or the other");
                let beside = Beside { target, teacher: self.unet.teacher(), precision: self.precision };
                ("consistency", consistency.loss(model, (latents, noise, sigmas), &beside))
            }
        };
        Some(Losses::of(loss.clone(), vec![(name, loss)]))
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

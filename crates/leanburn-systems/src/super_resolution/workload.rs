//! Training of a network that sees a coarse field to say what the noise in a fine one is.

use burn::tensor::{Device, Tensor};
use leanburn_nn::diffusion::DiffusionProcess;
use leanburn_nn::losses::{l1_loss, l2_loss, relative_l2_loss};
use leanburn_nn::models::{Sr3Condition, Sr3UNet};
use leanburn_nn::numerics::widen;
use leanburn_ops::{Interpolation, interpolate3d, random};
use leanburn_train::{AnyLearner, ForecastBatch, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::objective::SuperResolutionLoss;

/// A network that refines fields, and its optimizer.
#[derive(Debug)]
pub struct SuperResolutionWorkload {
    unet: Learner<Sr3UNet>,
    noise: FieldNoise,
    loss: SuperResolutionLoss,
    precision: Precision,
}

/// How noise is added to fields, and what a network is told of it.
#[derive(Debug, Clone)]
pub(super) struct FieldNoise {
    pub process: DiffusionProcess,
    pub condition: Sr3Condition,
}

impl FieldNoise {
    /// Fields with noise, each with its own amount of it, drawn at random, and what the network is told of it, `[batch_size]`.
    fn add(&self, fields: Tensor<5>, noise: Tensor<5>) -> (Tensor<5>, Tensor<1>) {
        let (batch_size, device) = (fields.dims()[0], fields.device());
        let times = self.process.num_train_timesteps() as f64;
        let drawn = (random::uniform([batch_size], &device) * times).floor().clamp_max(times - 1.0);
        match self.condition {
            Sr3Condition::NoiseLevel => {
                let levels = self.process.levels_between(drawn, random::uniform([batch_size], &device));
                (DiffusionProcess::add_noise_at(fields, noise, levels.clone()), levels)
            }
            Sr3Condition::Time => (self.process.add_noise(fields, noise, drawn.clone()), drawn),
        }
    }

    /// What the network is told of a time.
    pub fn told(&self, time: f64, batch_size: usize, device: &Device) -> Tensor<1> {
        let told = match self.condition {
            Sr3Condition::NoiseLevel => self.process.alpha_cumprod(time as usize).sqrt(),
            Sr3Condition::Time => time,
        };
        Tensor::full([batch_size], told, device)
    }
}

impl SuperResolutionWorkload {
    pub(super) fn new(
        unet: Learner<Sr3UNet>,
        noise: FieldNoise,
        loss: SuperResolutionLoss,
        precision: Precision,
    ) -> Self {
        Self { unet, noise, loss, precision }
    }

    pub(super) fn noise(&self) -> &FieldNoise {
        &self.noise
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    fn compare(&self, prediction: Tensor<5>, noise: Tensor<5>) -> Tensor<1> {
        match self.loss {
            SuperResolutionLoss::L2 => l2_loss(prediction, noise),
            SuperResolutionLoss::L1 => l1_loss(prediction, noise),
            SuperResolutionLoss::RelativeL2 => relative_l2_loss(prediction, noise),
        }
    }
}

/// The noise that a network finds in fine fields beside their condition, in float32.
pub(super) fn predict(
    unet: &Sr3UNet,
    precision: Precision,
    [condition, noisy]: [Tensor<5>; 2],
    told: Tensor<1>,
) -> Tensor<5> {
    widen(unet.forward(precision.cast(Tensor::cat(vec![condition, noisy], 1)), told))
}

/// Coarse fields `[batch_size, 1, channels, ..]` on the fine grid, between whose values straight lines lie:
/// `[batch_size, channels, 1, height, width]`.
pub(super) fn enlarged(coarse: Tensor<5>, [height, width]: [usize; 2]) -> Tensor<5> {
    let [batch_size, days, channels, from @ ..] = coarse.dims();
    let planes = coarse.reshape([batch_size, days * channels, 1, from[0], from[1]]);
    interpolate3d(planes, [1, height, width], Interpolation::Trilinear { align_corners: false })
}

impl Workload for SuperResolutionWorkload {
    type Batch = ForecastBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.unet]
    }

    fn loss(&mut self, _learner: usize, (coarse, fine): &ForecastBatch, _position: StepPosition) -> Option<Losses> {
        let [batch_size, channels, height, width] = fine.dims();
        let fine = fine.clone().reshape([batch_size, channels, 1, height, width]);
        let noise: Tensor<5> = random::normal(fine.dims(), &fine.device());
        let (noisy, told) = self.noise.add(fine, noise.clone());
        let condition = enlarged(coarse.clone(), [height, width]);
        let prediction = predict(self.unet.module(), self.precision, [condition, noisy], told);
        let loss = self.compare(prediction, noise);
        Some(Losses::of(loss.clone(), vec![("denoising", loss)]))
    }
}

impl MainModel for SuperResolutionWorkload {
    type Model = Sr3UNet;

    fn model(&self) -> &Learner<Sr3UNet> {
        &self.unet
    }

    fn model_mut(&mut self) -> &mut Learner<Sr3UNet> {
        &mut self.unet
    }
}

//! Training of a network that sees a coarse field: to say what of a noisy fine one is noise, or what the fine one is.

use burn::tensor::{Device, Tensor};
use leanburn_nn::diffusion::DiffusionProcess;
use leanburn_nn::losses::{l1_loss, l2_loss, relative_l2_loss};
use leanburn_nn::models::{Sr3Condition, Sr3UNet};
use leanburn_nn::numerics::widen;
use leanburn_ops::{Interpolation, interpolate3d, random};
use leanburn_train::{AnyLearner, ForecastBatch, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::model::{SuperResolver, refined};
use super::objective::SuperResolutionLoss;

/// A network that refines fields, and its optimizer.
#[derive(Debug)]
pub struct SuperResolutionWorkload {
    network: Learner<SuperResolver>,
    /// Of a diffusion model.
    noise: Option<FieldNoise>,
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
    /// Fields with noise, each with its own amount of it, drawn at random; what the network is told of it, `[batch_size]`; and what it should
    /// give.
    fn add(&self, fields: Tensor<5>) -> (Tensor<5>, Tensor<1>, Tensor<5>) {
        let noise: Tensor<5> = random::normal(fields.dims(), &fields.device());
        let (batch_size, device) = (fields.dims()[0], fields.device());
        let times = self.process.num_train_timesteps() as f64;
        let drawn = (random::uniform([batch_size], &device) * times).floor().clamp_max(times - 1.0);
        match self.condition {
            Sr3Condition::NoiseLevel => {
                let levels = self.process.levels_between(drawn, random::uniform([batch_size], &device));
                let target = self.process.target_at(fields.clone(), noise.clone(), levels.clone());
                (DiffusionProcess::add_noise_at(fields, noise, levels.clone()), levels, target)
            }
            Sr3Condition::Time => {
                let target = self.process.target(fields.clone(), noise.clone(), drawn.clone());
                (self.process.add_noise(fields, noise, drawn.clone()), drawn, target)
            }
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
        network: Learner<SuperResolver>,
        noise: Option<FieldNoise>,
        loss: SuperResolutionLoss,
        precision: Precision,
    ) -> Self {
        Self { network, noise, loss, precision }
    }

    pub(super) fn noise(&self) -> Option<&FieldNoise> {
        self.noise.as_ref()
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    fn compare(&self, prediction: Tensor<5>, truth: Tensor<5>) -> Tensor<1> {
        match self.loss {
            SuperResolutionLoss::L2 => l2_loss(prediction, truth),
            SuperResolutionLoss::L1 => l1_loss(prediction, truth),
            SuperResolutionLoss::RelativeL2 => relative_l2_loss(prediction, truth),
        }
    }

    /// The loss of a diffusion model.
    fn denoising_loss(&self, unet: &Sr3UNet, noise: &FieldNoise, condition: Tensor<5>, fine: Tensor<5>) -> Tensor<1> {
        let (noisy, told, target) = noise.add(fine);
        self.compare(predict(unet, self.precision, [condition, noisy], told), target)
    }
}

/// What a network gives for noisy fine fields beside their condition, in float32.
pub(super) fn predict(
    unet: &Sr3UNet,
    precision: Precision,
    [condition, noisy]: [Tensor<5>; 2],
    told: Tensor<1>,
) -> Tensor<5> {
    widen(unet.forward(precision.cast(Tensor::cat(vec![condition, noisy], 1)), told))
}

/// The fine fields of coarse planes, in float32, by a network that gives them at once.
pub(super) fn refine(model: &SuperResolver, precision: Precision, coarse: Tensor<5>) -> Tensor<5> {
    widen(refined(model, precision.cast(coarse)))
}

/// Coarse fields `[batch_size, 1, channels, height, width]` as planes, `[batch_size, channels, 1, height, width]`.
pub(super) fn planes(coarse: Tensor<5>) -> Tensor<5> {
    let [batch_size, days, channels, height, width] = coarse.dims();
    coarse.reshape([batch_size, days * channels, 1, height, width])
}

/// Planes on the fine grid; between their values lie straight lines.
pub(super) fn enlarged(planes: Tensor<5>, [height, width]: [usize; 2]) -> Tensor<5> {
    interpolate3d(planes, [1, height, width], Interpolation::Trilinear { align_corners: false })
}

impl Workload for SuperResolutionWorkload {
    type Batch = ForecastBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.network]
    }

    fn loss(&mut self, _learner: usize, (coarse, fine): &ForecastBatch, _position: StepPosition) -> Option<Losses> {
        let [batch_size, channels, height, width] = fine.dims();
        let fine = fine.clone().reshape([batch_size, channels, 1, height, width]);
        let coarse = planes(coarse.clone());
        let (name, loss) = match (self.network.module(), &self.noise) {
            (SuperResolver::Diffusion(unet), Some(noise)) => {
                ("denoising", self.denoising_loss(unet, noise, enlarged(coarse, [height, width]), fine))
            }
            (model, _) => ("refining", self.compare(refine(model, self.precision, coarse), fine)),
        };
        Some(Losses::of(loss.clone(), vec![(name, loss)]))
    }
}

impl MainModel for SuperResolutionWorkload {
    type Model = SuperResolver;

    fn model(&self) -> &Learner<SuperResolver> {
        &self.network
    }

    fn model_mut(&mut self) -> &mut Learner<SuperResolver> {
        &mut self.network
    }
}

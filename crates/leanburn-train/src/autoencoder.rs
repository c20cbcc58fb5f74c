//! Training of the KL autoencoder, with or without a discriminator.
//!
//! Rombach et al., [High-Resolution Image Synthesis with Latent Diffusion Models](https://arxiv.org/abs/2112.10752), stage one:
//! reconstruction, Kullback-Leibler and adversarial losses; the discriminator takes each micro-batch after the autoencoder.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::Batch;
use leanburn_nn::losses::{AdversarialCriterion, PatchAdversarialLoss, kl_divergence, l1_loss, l2_loss};
use leanburn_nn::models::{AutoencoderKl, MultiScalePatchDiscriminator, PatchDiscriminator};
use leanburn_nn::numerics::widen;
use leanburn_ops::own_planes;
use serde::{Deserialize, Serialize};

use crate::{AnyLearner, Learner, Losses, MainModel, Perceptual, Precision, StepPosition, Workload};

/// A micro-batch of volumes, `[batch_size, channels, depth, height, width]`.
pub type AutoencoderBatch = Tensor<5>;

/// A batch of the data pipeline as a tensor on the device.
pub fn volumes(batch: Batch, device: &Device) -> AutoencoderBatch {
    Tensor::from_data(TensorData::new(batch.data, batch.shape), device)
}

/// Distance between a volume and its reconstruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconstructionLoss {
    /// Mean absolute difference.
    #[default]
    L1,
    /// Mean squared difference.
    L2,
}

/// What an autoencoder is trained for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutoencoderObjective {
    /// Distance between volume and reconstruction, weight 1.
    pub reconstruction: ReconstructionLoss,
    /// Weight of the Kullback-Leibler divergence, summed over a latent and averaged over the batch.
    pub kl_weight: f64,
    /// How logits are compared with labels.
    pub adversarial: AdversarialCriterion,
    /// Weight of both adversarial losses.
    pub adversarial_weight: f64,
    /// First step with adversarial losses.
    pub adversarial_start_step: u64,
}

/// Absolute differences, a divergence of weight 1e-6, least squares of weight 0.01 from the first step on.
impl Default for AutoencoderObjective {
    fn default() -> Self {
        Self {
            reconstruction: ReconstructionLoss::L1,
            kl_weight: 1e-6,
            adversarial: AdversarialCriterion::LeastSquares,
            adversarial_weight: 0.01,
            adversarial_start_step: 0,
        }
    }
}

/// A discriminator of real volumes and reconstructions, at one or several scales.
pub trait Critic: Module {
    /// One tensor of logits a scale, for volumes `[batch_size, channels, depth, height, width]`.
    fn logits(&self, volumes: Tensor<5>) -> Vec<Tensor<5>>;
}

impl Critic for PatchDiscriminator {
    fn logits(&self, volumes: Tensor<5>) -> Vec<Tensor<5>> {
        self.forward(volumes).pop().into_iter().collect()
    }
}

impl Critic for MultiScalePatchDiscriminator {
    fn logits(&self, volumes: Tensor<5>) -> Vec<Tensor<5>> {
        self.forward(volumes).logits
    }
}

/// An autoencoder and its discriminator, each with an optimizer of its own.
#[derive(Debug)]
pub struct AutoencoderWorkload<D: Critic = MultiScalePatchDiscriminator> {
    autoencoder: Learner<AutoencoderKl>,
    discriminator: Option<Learner<D>>,
    objective: AutoencoderObjective,
    perceptual: Option<Perceptual>,
    precision: Precision,
    /// What the autoencoder made of the micro-batch, for the discriminator.
    reconstruction: Option<Tensor<5>>,
}

impl<D: Critic> AutoencoderWorkload<D> {
    /// Puts the parts together.
    pub fn new(
        autoencoder: Learner<AutoencoderKl>,
        discriminator: Option<Learner<D>>,
        objective: AutoencoderObjective,
        precision: Precision,
    ) -> Self {
        Self { autoencoder, discriminator, objective, perceptual: None, precision, reconstruction: None }
    }

    /// Adds a perceptual loss to the autoencoder's objective.
    pub fn with_perceptual(mut self, perceptual: Option<Perceptual>) -> Self {
        self.perceptual = perceptual;
        self
    }

    /// The discriminator's learner, to change.
    pub fn discriminator_mut(&mut self) -> Option<&mut Learner<D>> {
        self.discriminator.as_mut()
    }

    /// The discriminator's learner.
    pub fn discriminator(&self) -> Option<&Learner<D>> {
        self.discriminator.as_ref()
    }

    /// Whether the discriminator takes part in `step`.
    fn is_adversarial(&self, step: u64) -> bool {
        self.discriminator.is_some() && step >= self.objective.adversarial_start_step
    }

    fn adversarial_loss(&self) -> PatchAdversarialLoss {
        PatchAdversarialLoss::new(self.objective.adversarial)
    }

    fn generator_loss(&mut self, volumes: &Tensor<5>, position: StepPosition) -> Losses {
        let (reconstruction, mean, sigma) = self.autoencoder.module().forward(self.precision.cast(volumes.clone()));
        let distance = match self.objective.reconstruction {
            ReconstructionLoss::L1 => l1_loss(reconstruction.clone(), volumes.clone()),
            ReconstructionLoss::L2 => l2_loss(reconstruction.clone(), volumes.clone()),
        };
        let kl = kl_divergence(mean, sigma);
        let mut parts = vec![("reconstruction", distance.clone()), ("kl", kl.clone())];
        let mut total = distance + kl * self.objective.kl_weight;
        if let Some(perceptual) = &self.perceptual {
            let distance = perceptual.distance(reconstruction.clone(), volumes.clone(), position);
            parts.push(("perceptual", distance.clone()));
            total = total + distance * perceptual.weight;
        }
        if let Some(discriminator) = self.discriminator.as_ref().filter(|_| self.is_adversarial(position.step)) {
            // its weights take no gradient here; its statistics move, as in the reference implementation
            let logits = discriminator.module().clone().no_grad().logits(reconstruction.clone());
            let generator = self.adversarial_loss().generator(&logits);
            parts.push(("generator", generator.clone()));
            total = total + generator * self.objective.adversarial_weight;
            self.reconstruction = Some(reconstruction.detach());
        }
        Losses::of(total, parts)
    }

    fn discriminator_loss(&mut self, volumes: &Tensor<5>, step: u64) -> Option<Losses> {
        let fake = self.reconstruction.take()?;
        let discriminator = self.discriminator.as_ref().filter(|_| self.is_adversarial(step))?.module();
        let on_fake = discriminator.logits(fake);
        let on_real = discriminator.logits(self.precision.cast(volumes.clone()));
        let loss = self.adversarial_loss().discriminator(&on_fake, &on_real);
        Some(Losses::of(loss.clone() * self.objective.adversarial_weight, vec![("discriminator", loss)]))
    }

    /// The reconstruction of volumes by the trained weights, deterministic, in f32.
    pub fn reconstruct(&self, volumes: Tensor<5>) -> Tensor<5> {
        let volumes = volumes.without_autodiff();
        widen(self.autoencoder.trained().reconstruct(self.precision.cast(volumes)))
    }
}

impl<D: Critic> Workload for AutoencoderWorkload<D> {
    type Batch = AutoencoderBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        let discriminator = self.discriminator.as_mut().map(|learner| learner as &mut dyn AnyLearner);
        [Some(&mut self.autoencoder as &mut dyn AnyLearner), discriminator].into_iter().flatten().collect()
    }

    fn loss(&mut self, learner: usize, batch: &Self::Batch, position: StepPosition) -> Option<Losses> {
        match learner {
            0 => Some(self.generator_loss(batch, position)),
            _ => self.discriminator_loss(batch, position.step),
        }
    }

    /// Of the autoencoder alone: discriminators and perceptual networks look beyond a share.
    fn own_planes(&self, batch: &Self::Batch) -> Option<Self::Batch> {
        (self.discriminator.is_none() && self.perceptual.is_none()).then(|| own_planes(batch.clone()))
    }
}

impl<D: Critic> MainModel for AutoencoderWorkload<D> {
    type Model = AutoencoderKl;

    fn model(&self) -> &Learner<AutoencoderKl> {
        &self.autoencoder
    }

    fn model_mut(&mut self) -> &mut Learner<AutoencoderKl> {
        &mut self.autoencoder
    }
}

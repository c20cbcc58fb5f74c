//! Training of the voxel autoencoder, with a Gaussian latent or a codebook.
//!
//! [Auto-Encoding Variational Bayes](https://arxiv.org/abs/1312.6114), or
//! [Neural Discrete Representation Learning](https://arxiv.org/abs/1711.00937) where the latent is a codebook: reconstruction
//! (empty voxels may count less), Kullback-Leibler or commitment loss, and a perceptual loss if there is one.

use burn::tensor::{Int, Tensor};
use leanburn_nn::losses::{VaeLoss, kl_divergence_mean};
use leanburn_nn::models::Vae3d;
use leanburn_nn::numerics::widen;
use leanburn_ops::recording::without_autodiff;

use crate::{AnyLearner, Learner, Losses, MainModel, Perceptual, Precision, StepPosition, Workload};

/// A voxel autoencoder and its optimizer.
#[derive(Debug)]
pub struct VaeWorkload {
    vae: Learner<Vae3d>,
    loss: VaeLoss,
    perceptual: Option<Perceptual>,
    precision: Precision,
}

impl VaeWorkload {
    /// Puts the parts together. `beta` of the loss does not count where the latent is a codebook.
    pub fn new(vae: Learner<Vae3d>, loss: VaeLoss, perceptual: Option<Perceptual>, precision: Precision) -> Self {
        Self { vae, loss, perceptual, precision }
    }

    /// The reconstruction of volumes by the trained weights, deterministic, in f32.
    pub fn reconstruct(&self, volumes: Tensor<5>) -> Tensor<5> {
        widen(self.vae.trained().reconstruct(self.precision.cast(without_autodiff(volumes))))
    }

    /// The codes of volumes by the trained weights, `[batch_size, ..]`; none where the latent is Gaussian.
    pub fn codes(&self, volumes: Tensor<5>) -> Option<Tensor<4, Int>> {
        let vae = self.vae.trained();
        let codebook = vae.quantizer()?;
        // a vector of the codebook is the nearest to itself
        Some(codebook.codes(vae.quantize(self.precision.cast(without_autodiff(volumes))).0))
    }
}

impl Workload for VaeWorkload {
    /// Volumes, `[batch_size, channels, depth, height, width]`.
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.vae]
    }

    fn loss(&mut self, _learner: usize, volumes: &Tensor<5>, position: StepPosition) -> Option<Losses> {
        let (vae, x) = (self.vae.module(), self.precision.cast(volumes.clone()));
        let (reconstruction, name, latent, weight) = match vae.quantizer() {
            None => {
                let (reconstruction, mean, sigma) = vae.forward(x);
                (reconstruction, "kl", kl_divergence_mean(mean, sigma), self.loss.beta)
            }
            Some(_) => {
                let (latent, commitment) = vae.quantize(x);
                (vae.decode(latent), "commitment", commitment, 1.0)
            }
        };
        let distance = self.loss.voxels.forward(reconstruction.clone(), volumes.clone());
        let mut parts = vec![("reconstruction", distance.clone()), (name, latent.clone())];
        let mut total = distance + latent * weight;
        if let Some(perceptual) = &self.perceptual {
            let distance = perceptual.distance(reconstruction, volumes.clone(), position);
            parts.push(("perceptual", distance.clone()));
            total = total + distance * perceptual.weight;
        }
        Some(Losses::of(total, parts))
    }
}

impl MainModel for VaeWorkload {
    type Model = Vae3d;

    fn model(&self) -> &Learner<Vae3d> {
        &self.vae
    }

    fn model_mut(&mut self) -> &mut Learner<Vae3d> {
        &mut self.vae
    }
}

//! The loss of a voxel autoencoder.

use burn::tensor::Tensor;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use super::kl::kl_divergence_mean;
use super::voxels::VoxelLoss;
use crate::validation::Rules;

/// Reconstruction plus `beta` times the divergence of the latent from the standard normal.
///
/// Source: [beta-VAE](https://openreview.net/forum?id=Sy2fzU9gl). The divergence is averaged, not summed
/// ([`kl_divergence_mean`]), so that `beta` means the same for every size of volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VaeLoss {
    /// How the reconstruction is compared.
    pub voxels: VoxelLoss,
    /// Weight of the divergence.
    pub beta: f64,
}

impl Default for VaeLoss {
    /// Squared differences, a `beta` of 1e-6, all voxels alike.
    fn default() -> Self {
        Self { voxels: VoxelLoss::default(), beta: 1e-6 }
    }
}

impl VaeLoss {
    /// Everything that is wrong with the configuration, for volumes of so many channels.
    #[must_use]
    pub fn validate(&self, channels: usize) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.weight("beta", self.beta);
        validation.extend_below("voxels", self.voxels.validate(channels));
        validation.errors()
    }

    /// The loss of a reconstruction, and of mean and deviation of its latent.
    ///
    /// # Shapes
    ///
    /// - `reconstruction`, `target`: `[batch_size, channels, depth, height, width]`
    /// - `mean`, `sigma`: `[batch_size, latent_channels, ..]`
    /// - output: `[1]`
    pub fn forward(
        &self,
        reconstruction: Tensor<5>,
        target: Tensor<5>,
        mean: Tensor<5>,
        sigma: Tensor<5>,
    ) -> Tensor<1> {
        self.voxels.forward(reconstruction, target) + kl_divergence_mean(mean, sigma) * self.beta
    }
}

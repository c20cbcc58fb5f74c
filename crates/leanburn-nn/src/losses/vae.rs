//! The loss of a voxel autoencoder.

use burn::tensor::Tensor;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use super::kl::kl_divergence_mean;
use super::occupancy::{Difference, OccupancyWeight, voxel_loss};
use crate::validation::Rules;

/// Reconstruction plus `beta` times the divergence of the latent from the standard normal.
///
/// Source: [beta-VAE](https://openreview.net/forum?id=Sy2fzU9gl). The divergence is averaged, not summed
/// ([`kl_divergence_mean`]), so that `beta` means the same for every size of volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VaeLoss {
    /// How the reconstruction is compared.
    pub difference: Difference,
    /// Weight of the divergence.
    pub beta: f64,
    /// How much more occupied voxels count; `None` for the same.
    pub occupancy: Option<OccupancyWeight>,
}

impl Default for VaeLoss {
    /// Squared differences, a `beta` of 1e-6, all voxels alike.
    fn default() -> Self {
        Self { difference: Difference::L2, beta: 1e-6, occupancy: None }
    }
}

impl VaeLoss {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.weight("beta", self.beta);
        if let Some(OccupancyWeight { threshold, weight }) = self.occupancy {
            validation.weight("occupancy.threshold", threshold);
            validation.positive("occupancy.weight", weight, "use 1 for no difference");
        }
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
        voxel_loss(reconstruction, target, self.difference, self.occupancy)
            + kl_divergence_mean(mean, sigma) * self.beta
    }
}

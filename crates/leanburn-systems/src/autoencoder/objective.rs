//! What the KL autoencoder is trained for: its own keys of `autoencoder.training`.

use leanburn_nn::losses::AdversarialCriterion;
use leanburn_train::{AutoencoderObjective, ReconstructionLoss};
use serde::Serialize;

use super::discriminator::DiscriminatorSection;
use crate::shared::{PerceptualSection, with_methods};
use crate::yaml::{POSITIVE, Section};

/// The losses of the autoencoder, and its discriminator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AutoencoderObjectiveSection {
    /// The most positions whose scores against all others attention holds at a time: fewer take less
    /// memory and more time. Default: as many as have 4,194,304 scores.
    pub attention_block: Option<usize>,
    /// The perceptual loss.
    #[serde(flatten)]
    pub perceptual: PerceptualSection,
    /// Weight of the Kullback-Leibler divergence of the latent. Default: 1e-6.
    pub kl_weight: f64,
    /// The deviation of the latent that training starts from, or nearly. Default: none, what random weights give, about 1.
    pub initial_deviation: Option<f64>,
    /// Weight of the adversarial loss. Default: 0.01.
    pub adv_weight: f64,
    /// The loss between reconstruction and input. Default: l1.
    pub reconstruction_loss: ReconstructionLoss,
    /// The loss of the discriminator and against it. Default: least_squares.
    pub adversarial_loss: AdversarialCriterion,
    /// The step from which the adversarial loss counts. Default: 0.
    pub adversarial_start_step: u64,
    /// The discriminator. Default: none, no adversarial training.
    pub discriminator: Option<DiscriminatorSection>,
}

impl Default for AutoencoderObjectiveSection {
    fn default() -> Self {
        Self {
            attention_block: None,
            perceptual: PerceptualSection::default(),
            kl_weight: 1e-6,
            initial_deviation: None,
            adv_weight: 0.01,
            reconstruction_loss: ReconstructionLoss::L1,
            adversarial_loss: AdversarialCriterion::LeastSquares,
            adversarial_start_step: 0,
            discriminator: None,
        }
    }
}

with_methods! { AutoencoderObjectiveSection {
    with_attention_block => attention_block: Option<usize>,
    with_perceptual => perceptual: PerceptualSection,
    with_kl_weight => kl_weight: f64,
    with_initial_deviation => initial_deviation: Option<f64>,
    with_adv_weight => adv_weight: f64,
    with_reconstruction_loss => reconstruction_loss: ReconstructionLoss,
    with_adversarial_loss => adversarial_loss: AdversarialCriterion,
    with_adversarial_start_step => adversarial_start_step: u64,
    with_discriminator => discriminator: Option<DiscriminatorSection>,
} }

impl AutoencoderObjectiveSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            attention_block: section.number("attention_block", default.attention_block, 1..),
            perceptual: PerceptualSection::read(section),
            kl_weight: section.number("kl_weight", default.kl_weight, 0..),
            initial_deviation: section.number("initial_deviation", default.initial_deviation, POSITIVE),
            adv_weight: section.number("adv_weight", default.adv_weight, 0..),
            reconstruction_loss: section.choice("reconstruction_loss", default.reconstruction_loss),
            adversarial_loss: section.choice("adversarial_loss", default.adversarial_loss),
            adversarial_start_step: section.get("adversarial_start_step", default.adversarial_start_step),
            discriminator: section.optional("discriminator", DiscriminatorSection::read),
        }
    }

    /// The objective of the workload.
    pub fn objective(&self) -> AutoencoderObjective {
        AutoencoderObjective {
            reconstruction: self.reconstruction_loss,
            kl_weight: self.kl_weight,
            adversarial: self.adversarial_loss,
            adversarial_weight: self.adv_weight,
            adversarial_start_step: self.adversarial_start_step,
        }
    }
}

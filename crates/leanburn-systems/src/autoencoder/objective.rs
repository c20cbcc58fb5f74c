//! What the KL autoencoder is trained for: its own keys of `autoencoder.training`.

use std::ops::Bound;
use std::path::PathBuf;

use leanburn_nn::losses::{AdversarialCriterion, LpipsConfig, LpipsNetwork, Plane};
use leanburn_train::ReconstructionLoss;
use serde::Serialize;

use super::choice::Choice;
use super::limits::{MANY, POSITIVE};
use super::reader::Section;

/// The losses of the autoencoder, and its discriminator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AutoencoderObjectiveSection {
    /// The most positions whose scores against all others attention holds at a time: fewer take less
    /// memory and more time. Default: as many as have 4,194,304 scores.
    pub attention_block: Option<usize>,
    /// The perceptual loss.
    #[serde(flatten)]
    pub perceptual: PerceptualSection,
    /// Weight of the Kullback-Leibler divergence of the latent. Default: 1e-6.
    pub kl_weight: f64,
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

/// A perceptual loss beside the reconstruction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerceptualSection {
    /// Add the perceptual loss: features of a fixed random 3D network, and edges. Default: false.
    pub use_perceptual_loss: bool,
    /// Weight of the perceptual loss. Default: 0.001.
    pub perceptual_weight: f64,
    /// A network trained on photographs that looks at slices instead. Default: none.
    pub lpips: Option<LpipsSection>,
}

/// LPIPS, the perceptual loss of slices ("2.5D").
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LpipsSection {
    /// The file with the network's weights: the state dict of the package `lpips`, .pt or .safetensors. Required.
    pub weights: PathBuf,
    /// The network that looks at the slices. Default: squeeze.
    pub network: LpipsNetwork,
    /// The axes across which slices are cut. Default: [depth, height, width].
    pub planes: Vec<Plane>,
    /// Share of the slices of each axis that a step looks at. Default: 0.5.
    pub slice_share: f64,
}

impl LpipsSection {
    fn read(section: &mut Section<'_>) -> Self {
        let planes: Vec<Choice<Plane>> = section.get("planes", Plane::ALL.map(Choice).to_vec());
        Self {
            weights: section.required("weights", ..),
            network: section.choice("network", LpipsNetwork::Squeeze),
            planes: planes.into_iter().map(|Choice(plane)| plane).collect(),
            slice_share: section.number("slice_share", 0.5, (Bound::Excluded(0), Bound::Included(1))),
        }
    }

    /// What the loss is made from.
    pub fn config(&self) -> LpipsConfig {
        let config = LpipsConfig::new().with_network(self.network).with_planes(self.planes.clone());
        config.with_slice_share(self.slice_share)
    }
}

impl PerceptualSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            use_perceptual_loss: section.get("use_perceptual_loss", false),
            perceptual_weight: section.number("perceptual_weight", 0.001, 0..),
            lpips: section.optional("lpips", LpipsSection::read),
        }
    }
}

impl AutoencoderObjectiveSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            attention_block: section.number("attention_block", None, 1..),
            perceptual: PerceptualSection::read(section),
            kl_weight: section.number("kl_weight", 1e-6, 0..),
            adv_weight: section.number("adv_weight", 0.01, 0..),
            reconstruction_loss: section.choice("reconstruction_loss", ReconstructionLoss::L1),
            adversarial_loss: section.choice("adversarial_loss", AdversarialCriterion::LeastSquares),
            adversarial_start_step: section.get("adversarial_start_step", 0),
            discriminator: section.optional("discriminator", DiscriminatorSection::read),
        }
    }
}

/// A patch discriminator of one or several scales.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiscriminatorSection {
    /// Layers that halve the resolution. Default: 3.
    pub num_layers_d: usize,
    /// Channels of the first layer. Default: 32.
    pub num_channels: usize,
    /// Width of the convolutions. Default: 4.
    pub kernel_size: usize,
    /// Discriminators, each at half the resolution of the one before. Default: 1.
    pub num_scales: usize,
    /// Learning rate of the discriminator. Default: the autoencoder's.
    pub learning_rate: Option<f64>,
}

impl DiscriminatorSection {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            num_layers_d: section.number("num_layers_d", 3, 1..=16),
            num_channels: section.number("num_channels", 32, 1..=MANY),
            kernel_size: section.number("kernel_size", 4, 1..=32),
            num_scales: section.number("num_scales", 1, 1..=8),
            learning_rate: section.number("learning_rate", None, POSITIVE),
        }
    }
}

//! Autoencoders of voxels, from a configuration.

use burn::tensor::Device;
use leanburn_nn::blocks::VectorQuantizerConfig;
use leanburn_nn::losses::VaeLoss;
use leanburn_nn::models::{Vae3dConfig, VqVae3dConfig};
use leanburn_train::{Learner, VaeWorkload, VqVaeWorkload};

use super::learner::{drawn, learner, policy, refuse};
use super::perceptual;
use crate::config::{CodebookSection, Config, Vae3dSection, VaeType, VqVaeSection};
use crate::error::Result;

/// The configuration of the voxel autoencoder.
pub fn vae(section: &Vae3dSection) -> Vae3dConfig {
    let codebook = section.codebook.as_ref().map(|codebook| quantizer(codebook, section.latent_channels));
    let size = match section.vae_type {
        VaeType::Standard => Vae3dConfig::standard(),
        VaeType::Lightweight => Vae3dConfig::lightweight(),
        VaeType::UltraLightweight => Vae3dConfig::ultra_lightweight(),
    };
    size.with_in_channels(section.in_channels).with_latent_channels(section.latent_channels).with_codebook(codebook)
}

/// The configuration of the discrete autoencoder.
pub fn vq_vae(section: &VqVaeSection) -> VqVae3dConfig {
    let codebook = quantizer(&section.codebook, section.embedding_dim);
    VqVae3dConfig::new(section.channels.clone(), section.num_res_channels.clone(), codebook)
        .with_num_res_layers(section.num_res_layers)
        .with_in_channels(section.in_channels)
        .with_out_channels(section.in_channels)
}

fn quantizer(section: &CodebookSection, channels: usize) -> VectorQuantizerConfig {
    VectorQuantizerConfig::new(section.num_embeddings, channels)
        .with_commitment_cost(section.commitment_cost)
        .with_decay(section.decay)
        .with_restart_below(section.restart_below)
}

pub(super) fn build_vae(config: &Config, section: &Vae3dSection, source: &str, device: &Device) -> Result<VaeWorkload> {
    let (model, training) = (vae(section), &section.training);
    refuse(source, "vae3d", model.mistakes())?;
    let perceptual_section = &training.objective.perceptual;
    let segments = || Ok([model.init(&Device::flex()).segments(), perceptual::segments(perceptual_section)].concat());
    let policy = policy(config, source, segments)?;
    leanburn_ops::random::seed(device, config.seed);
    let model = drawn(device, |device| model.init(device)).with_residency(policy);
    let vae = Learner::new("vae", model, learner(config, training.common.learning_rate))?;
    let voxels = &training.objective.voxels;
    let loss = VaeLoss {
        difference: voxels.reconstruction_loss,
        beta: training.objective.kl_weight,
        occupancy: voxels.occupancy(),
    };
    let perceptual = perceptual::build(perceptual_section, source, "vae3d", device)?;
    Ok(VaeWorkload::new(vae, loss, perceptual, config.device.resolved_precision()))
}

pub(super) fn build_vq_vae(
    config: &Config,
    section: &VqVaeSection,
    source: &str,
    device: &Device,
) -> Result<VqVaeWorkload> {
    let (model, training) = (vq_vae(section), &section.training);
    refuse(source, "vqvae", model.mistakes())?;
    let policy = policy(config, source, || Ok(model.init(&Device::flex()).segments()))?;
    leanburn_ops::random::seed(device, config.seed);
    let model = drawn(device, |device| model.init(device)).with_residency(policy);
    let vq_vae = Learner::new("vqvae", model, learner(config, training.common.learning_rate))?;
    let voxels = &training.objective;
    let (difference, occupancy) = (voxels.reconstruction_loss, voxels.occupancy());
    Ok(VqVaeWorkload::new(vq_vae, difference, occupancy, config.device.resolved_precision()))
}

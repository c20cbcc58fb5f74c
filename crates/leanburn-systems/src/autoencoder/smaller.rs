//! What the planner may change about the autoencoder.

use super::section::AutoencoderSection;
use crate::system::ModelChange;

/// Changes of the model that save memory, each alone.
pub(super) fn smaller(section: &AutoencoderSection) -> Vec<ModelChange<AutoencoderSection>> {
    let mut changes = Vec::new();
    let mut change = |text: String, cost: &'static str, apply: &dyn Fn(&mut AutoencoderSection)| {
        let mut section = section.clone();
        apply(&mut section);
        changes.push(ModelChange { text, cost, section });
    };
    if section.attends() {
        change("without attention".into(), "positions no longer see each other across the volume", &|section| {
            section.attention_levels.fill(false);
            (section.with_encoder_nonlocal_attn, section.with_decoder_nonlocal_attn) = (false, false);
        });
    }
    if section.training.objective.perceptual.use_perceptual_loss {
        change("without the perceptual loss".into(), "textures are less sharp", &|section| {
            section.training.objective.perceptual.use_perceptual_loss = false;
        });
    }
    if section.training.objective.discriminator.is_some() {
        change("without the discriminator".into(), "reconstructions are smoother", &|section| {
            section.training.objective.discriminator = None;
            section.training.objective.adversarial_start_step = 0;
        });
    }
    let groups = section.norm_num_groups;
    if section.num_channels.iter().all(|channels| (channels / 2).is_multiple_of(groups) && channels / 2 > 0) {
        let halved: Vec<usize> = section.num_channels.iter().map(|channels| channels / 2).collect();
        let text = format!("autoencoder.num_channels = {halved:?}");
        change(text, "a smaller model: a quarter of the weights", &|section| section.num_channels = halved.clone());
    }
    changes
}

//! What a section must agree with: the data, its latents, and itself.

use leanburn_common::Validation;
use leanburn_nn::losses::Difference;

use super::section::DiffusionSection;
use crate::shared::Context;

impl DiffusionSection {
    /// A model of classes has those of the data, and one that stands for none.
    pub(super) fn check_classes(&self, context: &Context<'_>, validation: &mut Validation) {
        let (Some(embeds), classes) = (self.num_class_embeds, context.data.classes.len()) else { return };
        let help = match classes {
            0 => "name them, such as `classes: [healthy, tumour]`, or leave `num_class_embeds` out".to_string(),
            _ => format!("write `num_class_embeds: {}`", classes + 1),
        };
        validation.check_together(
            classes > 0 && embeds == classes + 1,
            &["data.classes"],
            "diffusion.num_class_embeds",
            "one for each of `data.classes`, and one for no class",
            format!("{embeds}, where `data.classes` names {classes}"),
            help,
        );
    }

    /// Sizes that the configuration names must give latents that the levels can halve.
    pub(super) fn check_grid(&self, context: &Context<'_>, validation: &mut Validation) {
        let (Some(latents), Some(factor)) = (context.latents, self.factor()) else { return };
        let (key, size) = match (context.data.patch_size, context.data.voxel_size) {
            (Some(patch), _) => ("data.patch_size", patch),
            (None, Some(volume)) => ("data.voxel_size", volume),
            (None, None) => return,
        };
        let found = latents.extent_of(size);
        let nearest = found.map(|length| length.next_multiple_of(factor));
        let voxels = [0, 1, 2].map(|axis| nearest[axis].saturating_mul(latents.downsampling[axis]));
        validation.check_together(
            found == nearest,
            &["diffusion.num_channels", "latents.downsampling"],
            key,
            &format!(
                "latents whose sizes are multiples of {factor}, since {} levels halve them",
                self.num_channels.len()
            ),
            format!("{size:?}, which become latents of {found:?}"),
            format!("use {voxels:?}, or fewer levels in `num_channels`"),
        );
    }

    /// A consistency model is a denoiser at noise levels, with a loss of its own.
    pub(super) fn check_consistency(&self, validation: &mut Validation) {
        let Some(consistency) = &self.consistency else { return };
        validation.check_together(
            self.consistent().is_some(),
            &["diffusion.consistency"],
            "diffusion.scheduler.name",
            "edm: a consistency model is a denoiser at noise levels",
            "another scheduler",
            "write `scheduler: {name: edm}`, or leave the section out",
        );
        validation.check_together(
            self.training.objective.loss == Difference::L2,
            &["diffusion.consistency"],
            "diffusion.training.loss",
            "no loss of a diffusion model, as this is a consistency model",
            "l1",
            format!("remove it; `diffusion.consistency.loss_norm` is {}", consistency.loss_norm.name()),
        );
        validation.check_together(
            self.training.objective.linear_baseline == 0,
            &["diffusion.consistency"],
            "diffusion.training.linear_baseline",
            "0, as a consistency model is not asked for noise",
            self.training.objective.linear_baseline,
            "remove it",
        );
    }

    /// By how much the levels divide latents, if there are not absurdly many.
    fn factor(&self) -> Option<usize> {
        let halvings = u32::try_from(self.num_channels.len()).ok()?.checked_sub(1)?;
        1_usize.checked_shl(halvings)
    }
}

//! The perceptual loss of an objective, from a configuration.

use burn::tensor::Device;
use leanburn_nn::losses::{FeatureLoss3dConfig, Lpips, LpipsNetwork, Plane};
use leanburn_ops::recording::is_recording;
use leanburn_train::{Perceptual, PerceptualKind};

use super::learner::{drawn, refuse};
use crate::config::{LpipsSection, PerceptualSection};
use crate::error::{CommandError, Result};

/// The loss, if there is one.
///
/// # Errors
///
/// [`CommandError::Model`], [`CommandError::Lpips`].
pub(super) fn build(
    section: &PerceptualSection,
    source: &str,
    system: &str,
    device: &Device,
) -> Result<Option<Perceptual>> {
    if !section.use_perceptual_loss {
        return Ok(None);
    }
    let kind = match &section.lpips {
        None => PerceptualKind::Features(drawn(device, |device| FeatureLoss3dConfig::new().init(device))),
        Some(section) => PerceptualKind::Slices(slices(section, source, system, device)?),
    };
    Ok(Some(Perceptual { kind, weight: section.perceptual_weight }))
}

/// LPIPS with the weights of its file; where nothing is computed, without, so that a plan needs no file.
fn slices(section: &LpipsSection, source: &str, system: &str, device: &Device) -> Result<Lpips> {
    let (config, key) = (section.config(), format!("{system}.training.lpips"));
    refuse(source, &key, config.mistakes())?;
    if is_recording(device) {
        return Ok(config.init(device));
    }
    config.load(&section.weights, device).map_err(|reason| CommandError::Lpips {
        key: format!("{key}.weights"),
        remedy: reason.remedy(),
        reason,
    })
}

/// Segments of the loss, if there is one: always recomputed, so that naming them changes nothing.
///
/// Those of LPIPS are as many as the volume has slices; see [`names_slices`].
pub(super) fn segments(section: &PerceptualSection) -> Vec<String> {
    match section.use_perceptual_loss && section.lpips.is_none() {
        true => FeatureLoss3dConfig::new().init(&Device::flex()).segments(),
        false => Vec::new(),
    }
}

/// Whether a pattern is for segments of LPIPS, which are always recomputed too.
pub(super) fn names_slices(section: Option<&PerceptualSection>, pattern: &str) -> bool {
    let looks = section.is_some_and(|section| section.use_perceptual_loss && section.lpips.is_some());
    looks && pattern.starts_with("perceptual.")
}

/// Checks that the slices of a volume are large enough for the network.
///
/// # Errors
///
/// [`CommandError::Input`].
pub(super) fn check(section: &PerceptualSection, name: &str, extent: [usize; 3]) -> Result<()> {
    let Some(lpips) = section.lpips.as_ref().filter(|_| section.use_perceptual_loss) else {
        return Ok(());
    };
    let smallest = lpips.network.smallest_side();
    let is_enough = |plane: Plane| (0..3).all(|axis| axis == plane as usize || extent[axis] >= smallest);
    if lpips.planes.iter().all(|plane| is_enough(*plane)) {
        return Ok(());
    }
    let enough: Vec<_> = Plane::ALL.into_iter().filter(|plane| is_enough(*plane)).map(Plane::name).collect();
    Err(CommandError::Input {
        subject: name.to_string(),
        expected: format!("slices of {smallest} x {smallest} at least, for {} to look at", lpips.network.name()),
        found: format!("{extent:?}, depth, height and width"),
        remedy: match enough.is_empty() {
            false => format!("set lpips.planes to [{}]", enough.join(", ")),
            true => format!(
                "enlarge data.patch_size or data.voxel_size, or leave `lpips` out: features of the whole volume take any \
                 size ({} is content with {})",
                LpipsNetwork::Vgg.name(),
                LpipsNetwork::Vgg.smallest_side()
            ),
        },
    })
}

//! The diffusion model that a consistency model is trained from.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_nn::weights;

use super::scheduler::SchedulerSection;
use super::section::DiffusionSection;
use crate::error::{Result, SystemError};
use crate::normalization;
use crate::shared::Context;
use crate::weight_source::weights_of;

/// The key that names it.
const KEY: &str = "diffusion.consistency.teacher";

/// The network of the teacher with its weights, on a device without autodiff.
///
/// # Errors
///
/// [`SystemError::Input`] if it is not there, or not a denoiser of the same latents by the same network; what its files cannot be read for.
pub(super) fn load(
    section: &DiffusionSection,
    path: &Path,
    context: &Context<'_>,
    device: &Device,
) -> Result<DiffusionUNet3d> {
    let weights = found_weights(path)?;
    let stage = (context.first_stage)(&weights, device)?;
    let Some(teacher) = stage.system.downcast_ref::<DiffusionSection>() else {
        return Err(rejected(
            "a run of a diffusion model",
            "one of another system",
            "name the run of a section `diffusion`",
        ));
    };
    check_noise(section, teacher)?;
    if teacher.model().with_dropout(section.dropout) != section.model() {
        let expected = format!("the network of this model, {:?}", section.model());
        let remedy =
            "give both the same `num_channels`, `num_res_blocks`, `attention_levels`, `num_head_channels` and norms";
        return Err(rejected(&expected, &format!("{:?}", teacher.model()), remedy));
    }
    let mut network = teacher.model().init(device);
    weights::load(&mut network, &weights)?;
    Ok(network)
}

/// A teacher must be a denoiser at noise levels, of latents of the same deviation.
fn check_noise(section: &DiffusionSection, teacher: &DiffusionSection) -> Result<()> {
    let SchedulerSection::Edm(there) = &teacher.scheduler else {
        let expected = "a denoiser at noise levels, trained with `scheduler: {name: edm}`";
        return Err(rejected(expected, "another scheduler", "train the teacher with the scheduler `edm`"));
    };
    if teacher.consistency.is_some() {
        let remedy = "name the run of a diffusion model; to go on with a consistency model use --from";
        return Err(rejected("a diffusion model", "a consistency model", remedy));
    }
    match section.consistent() {
        Some((_, here)) if here.sigma_data != there.sigma_data => {
            let expected = format!("a teacher with `sigma_data: {}`", here.sigma_data);
            let remedy = format!("write `sigma_data: {}` in `diffusion.scheduler`", there.sigma_data);
            Err(rejected(&expected, &there.sigma_data.to_string(), &remedy))
        }
        _ => Ok(()),
    }
}

/// What the teacher's latents were multiplied by.
///
/// # Errors
///
/// [`SystemError::Input`] if its files are not there.
pub(super) fn scale_factor(path: &Path) -> Result<f64> {
    let channels = normalization::beside(&found_weights(path)?)?;
    Ok(channels.first().map_or(1.0, |channel| channel.scale))
}

fn found_weights(path: &Path) -> Result<PathBuf> {
    let weights = weights_of(path);
    if weights.is_file() {
        return Ok(weights);
    }
    let name = path.file_name().unwrap_or_default().display();
    let expected = format!("the weights of a trained diffusion model in {}", weights.display());
    let remedy = format!(
        "train it: `leanburn train {name}.yaml`, or have it trained before this one by `leanburn train ... --with-stages`"
    );
    Err(rejected(&expected, if path.exists() { "none there" } else { "nothing there" }, &remedy))
}

fn rejected(expected: &str, found: &str, remedy: &str) -> SystemError {
    SystemError::Input { subject: KEY.into(), expected: expected.into(), found: found.into(), remedy: remedy.into() }
}

//! The `latents` section: of which first stage the latents are that a diffusion model is trained on.

use std::path::PathBuf;

use leanburn_common::{Validation, ValidationError};
use serde::Serialize;

use super::builders::with_methods;
use crate::weight_source::weights_of;
use crate::yaml::{MANY, POSITIVE, PerAxis, Section};

/// The latents that a diffusion model is trained on, in place of the volumes of `data`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LatentsSection {
    /// The trained autoencoder: the folder of its run, or its weights with the `config.yaml` of the run in the same folder. Required.
    pub autoencoder: PathBuf,
    /// By how much the latent is smaller than the volume, on each axis. Default: 4, that of an autoencoder of three levels.
    pub downsampling: [usize; 3],
    /// Training samples of each volume that are encoded: patches, mirrored and augmented as `data` says. Default: 1.
    pub samples_per_volume: usize,
    /// A folder for the latents, which are then read from its files in place of memory, by later runs too. Default: none, in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// What latents are multiplied by. Default: what makes their deviation 1.
    pub scale_factor: Option<f64>,
}

with_methods! { LatentsSection {
    with_downsampling => downsampling: [usize; 3],
    with_samples_per_volume => samples_per_volume: usize,
    with_folder => folder: Option<PathBuf>,
    with_scale_factor => scale_factor: Option<f64>,
} }

impl LatentsSection {
    /// The latents of an autoencoder, with every default.
    pub fn new(autoencoder: impl Into<PathBuf>) -> Self {
        Self {
            autoencoder: autoencoder.into(),
            downsampling: [4; 3],
            samples_per_volume: 1,
            folder: None,
            scale_factor: None,
        }
    }

    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::new(section.required::<PathBuf>("autoencoder", ..));
        Self {
            downsampling: section.number("downsampling", PerAxis(default.downsampling), 1..=MANY).0,
            samples_per_volume: section.number("samples_per_volume", default.samples_per_volume, 1..=MANY),
            folder: section.get("folder", default.folder).filter(|path: &PathBuf| !path.as_os_str().is_empty()),
            scale_factor: section.number("scale_factor", default.scale_factor, POSITIVE),
            ..default
        }
    }

    /// What is wrong with the values: keys of this section.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let is_named = !self.autoencoder.as_os_str().is_empty();
        let help = "name the run of the first stage, such as `autoencoder: runs/mni152-autoencoder`";
        validation.check(is_named, "autoencoder", "a run's folder or a file of weights", "nothing", help);
        let sound = self.downsampling.iter().all(|factor| *factor > 0);
        validation.check(sound, "downsampling", "factors of at least 1", format!("{:?}", self.downsampling), "use 4");
        validation.check(self.samples_per_volume > 0, "samples_per_volume", "at least 1", 0, "write at least 1");
        let scale = self.scale_factor.unwrap_or(1.0);
        let help = "leave it out: it is computed from the latents";
        validation.check(scale.is_finite() && scale > 0.0, "scale_factor", "a number above 0", scale, help);
        validation.errors()
    }

    /// The file of the autoencoder's weights. A name that ends as one of a file is that file, any other a run's folder.
    pub fn weights(&self) -> PathBuf {
        weights_of(&self.autoencoder)
    }

    /// Depth, height and width of the latent of a volume, whose sizes are padded where they have to be.
    pub fn extent_of(&self, volume: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|axis| volume[axis].div_ceil(self.downsampling[axis].max(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_run_or_a_file_has_the_weights() {
        let weights = |path: &str| LatentsSection::new(path).weights();
        assert_eq!(weights("runs/a.b"), Path::new("runs/a.b/weights.safetensors"));
        assert_eq!(weights("runs/a/best/weights.safetensors"), Path::new("runs/a/best/weights.safetensors"));
        assert_eq!(weights("old/autoencoder.pt"), Path::new("old/autoencoder.pt"));
    }

    #[test]
    fn latents_of_padded_volumes_are_rounded_up() {
        let section = LatentsSection::new("runs/a").with_downsampling([4, 2, 1]);
        assert_eq!(section.extent_of([9, 8, 7]), [3, 4, 7]);
    }
}

//! The perceptual loss of an objective: its keys, and how it is built.

use std::ops::Bound;
use std::path::PathBuf;

use burn::tensor::Device;
use leanburn_common::ValidationError;
use leanburn_nn::losses::{FeatureLoss3dConfig, Lpips, LpipsConfig, LpipsNetwork, Plane};
use leanburn_ops::recording::is_recording;
use leanburn_train::{Perceptual, PerceptualKind};
use serde::Serialize;

use super::builders::with_methods;
use super::validation::of_section;
use crate::error::{Result, SystemError};
use crate::yaml::{Choice, Section};

/// A perceptual loss in addition to the reconstruction loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PerceptualSection {
    /// Add the perceptual loss: features of a fixed random 3D network, and edges. Default: false.
    pub use_perceptual_loss: bool,
    /// Weight of the perceptual loss. Default: 0.001.
    pub perceptual_weight: f64,
    /// LPIPS of slices, by a network trained on photographs, instead. Default: none.
    pub lpips: Option<LpipsSection>,
}

/// LPIPS, the perceptual loss of slices ("2.5D").
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LpipsSection {
    /// The file with the network's weights: the state dict of the package `lpips`, .pt or .safetensors. Required.
    pub weights: PathBuf,
    /// The network of LPIPS. Default: squeeze.
    pub network: LpipsNetwork,
    /// The axes across which slices are cut. Default: [depth, height, width].
    pub planes: Vec<Plane>,
    /// Share of the slices of each axis that a step compares. Default: 0.5.
    pub slice_share: f64,
}

impl LpipsSection {
    /// LPIPS with the weights of a file and every default.
    pub fn new(weights: impl Into<PathBuf>) -> Self {
        Self { weights: weights.into(), network: LpipsNetwork::Squeeze, planes: Plane::ALL.to_vec(), slice_share: 0.5 }
    }

    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::new(section.required::<PathBuf>("weights", ..));
        let planes = section.get("planes", default.planes.into_iter().map(Choice).collect::<Vec<_>>());
        Self {
            weights: default.weights,
            network: section.choice("network", default.network),
            planes: planes.into_iter().map(|Choice(plane)| plane).collect(),
            slice_share: section.number("slice_share", default.slice_share, (Bound::Excluded(0), Bound::Included(1))),
        }
    }

    /// What the loss is made from.
    pub fn config(&self) -> LpipsConfig {
        let config = LpipsConfig::new().with_network(self.network).with_planes(self.planes.clone());
        config.with_slice_share(self.slice_share)
    }
}

impl Default for PerceptualSection {
    fn default() -> Self {
        Self { use_perceptual_loss: false, perceptual_weight: 0.001, lpips: None }
    }
}

with_methods! { LpipsSection {
    with_network => network: LpipsNetwork,
    with_planes => planes: Vec<Plane>,
    with_slice_share => slice_share: f64,
} }

with_methods! { PerceptualSection {
    with_use_perceptual_loss => use_perceptual_loss: bool,
    with_perceptual_weight => perceptual_weight: f64,
    with_lpips => lpips: Option<LpipsSection>,
} }

impl PerceptualSection {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            use_perceptual_loss: section.get("use_perceptual_loss", default.use_perceptual_loss),
            perceptual_weight: section.number("perceptual_weight", default.perceptual_weight, 0..),
            lpips: section.optional("lpips", LpipsSection::read),
        }
    }

    /// The loss, if there is one, for the system called `system`.
    ///
    /// # Errors
    ///
    /// [`SystemError::Lpips`].
    pub(crate) fn build(&self, system: &str, device: &Device) -> Result<Option<Perceptual>> {
        if !self.use_perceptual_loss {
            return Ok(None);
        }
        let kind = match &self.lpips {
            None => PerceptualKind::Features(FeatureLoss3dConfig::new().init(device)),
            Some(section) => PerceptualKind::Slices(slices(section, system, device)?),
        };
        Ok(Some(Perceptual { kind, weight: self.perceptual_weight }))
    }

    /// Segments of the loss, if there is one: always recomputed, so that naming them changes nothing.
    ///
    /// Those of LPIPS are as many as the volume has slices; see [`Self::is_segment`].
    pub(crate) fn segments(&self) -> Vec<String> {
        match self.use_perceptual_loss && self.lpips.is_none() {
            true => FeatureLoss3dConfig::new().init(&Device::flex()).segments(),
            false => Vec::new(),
        }
    }

    /// Whether a pattern is for segments of LPIPS, which are always recomputed too.
    pub(crate) fn is_segment(&self, pattern: &str) -> bool {
        self.use_perceptual_loss && self.lpips.is_some() && pattern.starts_with("perceptual.")
    }
    /// What is wrong with the keys of the system called `system`.
    pub(crate) fn validate(&self, system: &str) -> Vec<ValidationError> {
        let lpips = self.lpips.as_ref().map_or(Vec::new(), |lpips| lpips.config().validate());
        of_section(lpips, &format!("{system}.training.lpips"), &[])
    }

    /// Checks that the slices of a volume are large enough for the network.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`].
    pub(crate) fn check_sample(&self, name: &str, extent: [usize; 3]) -> Result<()> {
        let Some(lpips) = self.lpips.as_ref().filter(|_| self.use_perceptual_loss) else {
            return Ok(());
        };
        lpips.config().check_input(extent).map_err(|error| SystemError::Input {
            subject: name.to_string(),
            expected: error.expected,
            found: error.found,
            remedy: format!(
                "for lpips: {}; or enlarge data.patch_size or data.voxel_size, or leave `lpips` out",
                error.help
            ),
        })
    }
}

/// LPIPS with the weights of its file; where nothing is computed, without, so that a plan needs no file.
fn slices(section: &LpipsSection, system: &str, device: &Device) -> Result<Lpips> {
    let (config, key) = (section.config(), format!("{system}.training.lpips"));
    if is_recording(device) {
        return Ok(config.init(device));
    }
    config.load(&section.weights, device).map_err(|reason| SystemError::Lpips {
        key: format!("{key}.weights"),
        remedy: reason.remedy(),
        reason,
    })
}

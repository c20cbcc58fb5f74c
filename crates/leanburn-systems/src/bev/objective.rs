//! The losses of a map: keys of `bev.training`.

use leanburn_nn::losses::{ClassWeights, OccupancyCriterion};
use serde::Serialize;

use crate::shared::with_methods;
use crate::yaml::Section;

/// What is added up to the loss of a map.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BevObjectiveSection {
    /// How much more a cell of a rare class counts. Default: `sqrt_inverse`, by the root of how often the class occurs.
    pub class_weights: ClassWeights,
    /// Weight of the cells that are not seen, in which the priors are to be predicted. Default: 0.001.
    pub uncertainty_weight: f64,
    /// Weight of the loss of a network that removes noise from maps; with 0 there is none. Default: 0.
    pub diffusion_weight: f64,
    /// Weight of how far the depths that pixels are lifted to are from known ones, in metres; with 0 there is none. Default: 0.
    pub depth_weight: f64,
}

impl Default for BevObjectiveSection {
    fn default() -> Self {
        Self {
            class_weights: ClassWeights::default(),
            uncertainty_weight: 1e-3,
            diffusion_weight: 0.0,
            depth_weight: 0.0,
        }
    }
}

with_methods! { BevObjectiveSection {
    with_class_weights => class_weights: ClassWeights,
    with_uncertainty_weight => uncertainty_weight: f64,
    with_diffusion_weight => diffusion_weight: f64,
    with_depth_weight => depth_weight: f64,
} }

impl BevObjectiveSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            class_weights: section.choice("class_weights", default.class_weights),
            uncertainty_weight: section.number("uncertainty_weight", default.uncertainty_weight, 0..),
            diffusion_weight: section.number("diffusion_weight", default.diffusion_weight, 0..),
            depth_weight: section.number("depth_weight", default.depth_weight, 0..),
        }
    }

    /// The loss of maps whose classes occur so often.
    pub fn criterion(&self, priors: &[f64]) -> OccupancyCriterion {
        OccupancyCriterion::new(priors.to_vec())
            .with_class_weights(self.class_weights)
            .with_uncertainty_weight(self.uncertainty_weight)
    }
}

//! The loss and the metrics of voxels that are mostly empty.

use leanburn_data::metrics::{chamfer_distance, intersection_over_union};
use leanburn_nn::losses::{Difference, OccupancyWeight};
use serde::Serialize;

use super::builders::with_methods;
use crate::yaml::{POSITIVE, Section};

/// How voxels are compared with those of the input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VoxelObjectiveSection {
    /// The loss between reconstruction and input. Default: l2.
    pub reconstruction_loss: Difference,
    /// What an occupied voxel counts where an empty one counts 1. Default: 1.
    pub occupancy_weight: f64,
    /// A voxel is occupied where its absolute value is above this, in the loss and in the metrics. Default: 0.5.
    pub occupancy_threshold: f64,
}

impl Default for VoxelObjectiveSection {
    fn default() -> Self {
        Self { reconstruction_loss: Difference::L2, occupancy_weight: 1.0, occupancy_threshold: 0.5 }
    }
}

with_methods! { VoxelObjectiveSection {
    with_reconstruction_loss => reconstruction_loss: Difference,
    with_occupancy_weight => occupancy_weight: f64,
    with_occupancy_threshold => occupancy_threshold: f64,
} }

impl VoxelObjectiveSection {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            reconstruction_loss: section.choice("reconstruction_loss", default.reconstruction_loss),
            occupancy_weight: section.number("occupancy_weight", default.occupancy_weight, POSITIVE),
            occupancy_threshold: section.number("occupancy_threshold", default.occupancy_threshold, 0..),
        }
    }

    /// How much more an occupied voxel counts, if it does.
    pub fn occupancy(&self) -> Option<OccupancyWeight> {
        let weight = OccupancyWeight { threshold: self.occupancy_threshold, weight: self.occupancy_weight };
        (self.occupancy_weight != 1.0).then_some(weight)
    }

    /// How well occupied voxels are met: intersection over union, and the distance between the two sets in voxels.
    ///
    /// # Shapes
    ///
    /// Both slices begin with a channel of `extent` voxels (of a radar the occupancy); the rest is ignored.
    ///
    /// # Errors
    ///
    /// [`SystemError::Data`](crate::SystemError::Data) if a slice is shorter than that.
    pub(crate) fn metrics(
        &self,
        reconstruction: &[f32],
        truth: &[f32],
        extent: [usize; 3],
    ) -> crate::error::Result<[(&'static str, f64); 2]> {
        let count: usize = extent.iter().product();
        let (made, truth) = (&reconstruction[..count], &truth[..count]);
        let threshold = self.occupancy_threshold as f32;
        Ok([
            ("iou", intersection_over_union(made, truth, threshold)?),
            ("chamfer_voxels", chamfer_distance(made, truth, extent, threshold)?.mean()),
        ])
    }
}

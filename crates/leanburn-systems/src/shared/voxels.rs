//! The loss and the metrics of voxels that are mostly empty.

use burn::tensor::Tensor;
use leanburn_common::ValidationError;
use leanburn_data::Sample;
use leanburn_data::metrics::{chamfer_distance, intersection_over_union};
use leanburn_nn::losses::{Difference, VoxelLoss};
use serde::Serialize;

use super::builders::with_methods;
use super::validation::of_section;
use crate::error::Result;
use crate::evaluation::Metrics;
use crate::volume::values;
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
    /// What each channel counts in the loss. Default: none, all alike.
    pub channel_weights: Option<Vec<f64>>,
    /// Weight of what is predicted in empty voxels of the first channel. Default: 0.
    pub false_positive_weight: f64,
    /// Weight of how much more or less than there is is predicted in the first channel. Default: 0.
    pub occupancy_mass_weight: f64,
}

impl Default for VoxelObjectiveSection {
    fn default() -> Self {
        Self {
            reconstruction_loss: Difference::L2,
            occupancy_weight: 1.0,
            occupancy_threshold: 0.5,
            channel_weights: None,
            false_positive_weight: 0.0,
            occupancy_mass_weight: 0.0,
        }
    }
}

with_methods! { VoxelObjectiveSection {
    with_reconstruction_loss => reconstruction_loss: Difference,
    with_occupancy_weight => occupancy_weight: f64,
    with_occupancy_threshold => occupancy_threshold: f64,
    with_channel_weights => channel_weights: Option<Vec<f64>>,
    with_false_positive_weight => false_positive_weight: f64,
    with_occupancy_mass_weight => occupancy_mass_weight: f64,
} }

impl VoxelObjectiveSection {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            reconstruction_loss: section.choice("reconstruction_loss", default.reconstruction_loss),
            occupancy_weight: section.number("occupancy_weight", default.occupancy_weight, POSITIVE),
            occupancy_threshold: section.number("occupancy_threshold", default.occupancy_threshold, 0..),
            channel_weights: section.get("channel_weights", default.channel_weights),
            false_positive_weight: section.number("false_positive_weight", default.false_positive_weight, 0..),
            occupancy_mass_weight: section.number("occupancy_mass_weight", default.occupancy_mass_weight, 0..),
        }
    }

    /// Everything that is wrong with it in the section of a system whose volumes have so many channels.
    pub(crate) fn validate(&self, system: &str, channels: usize) -> Vec<ValidationError> {
        of_section(self.loss().validate(channels), &format!("{system}.training"), &[])
    }

    /// The loss.
    pub fn loss(&self) -> VoxelLoss {
        VoxelLoss {
            difference: self.reconstruction_loss,
            occupancy_threshold: self.occupancy_threshold,
            occupancy_weight: self.occupancy_weight,
            channel_weights: self.channel_weights.clone(),
            false_positive_weight: self.false_positive_weight,
            occupancy_mass_weight: self.occupancy_mass_weight,
        }
    }

    /// The loss of a reconstruction, and how well its occupied voxels are met: intersection over union, and the distance between
    /// the two sets in voxels, which is left out where one of them is empty.
    ///
    /// # Shapes
    ///
    /// `volume` is that of the sample, `reconstruction` has its shape. What is occupied is seen in the first channel (of a radar the
    /// occupancy).
    ///
    /// # Errors
    ///
    /// [`SystemError::Data`](crate::SystemError::Data) if the metrics cannot be taken.
    pub(crate) fn metrics(&self, sample: &Sample, volume: Tensor<5>, reconstruction: Tensor<5>) -> Result<Metrics> {
        let loss = self.loss().forward(reconstruction.clone(), volume);
        let reconstruction = values(reconstruction);
        let [_, extent @ ..] = sample.shape;
        let count: usize = extent.iter().product();
        let (made, truth) = (&reconstruction[..count], &sample.data[..count]);
        let threshold = self.occupancy_threshold as f32;
        let mut metrics = vec![
            ("reconstruction", f64::from(loss.into_scalar::<f32>())),
            ("iou", intersection_over_union(made, truth, threshold)?),
        ];
        let distance = chamfer_distance(made, truth, extent, threshold)?.mean();
        metrics.extend(distance.is_finite().then_some(("chamfer_voxels", distance)));
        Ok(metrics)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::volume::tensor;

    #[test]
    fn a_distance_to_nothing_is_left_out() {
        let names = |truth: f32, made: f32| -> Vec<&'static str> {
            let shape = [1, 2, 2, 2];
            let sample = Sample {
                data: vec![truth; 8],
                shape,
                labels: None,
                name: "scene".into(),
                class: None,
                start: [0; 3],
                intensity: Default::default(),
            };
            let volume = |value: f32| tensor(vec![value; 8], shape, &Device::flex());
            let section = VoxelObjectiveSection::default();
            section.metrics(&sample, volume(truth), volume(made)).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(1.0, 1.0), ["reconstruction", "iou", "chamfer_voxels"]);
        assert_eq!(names(1.0, 0.0), ["reconstruction", "iou"]);
    }
}

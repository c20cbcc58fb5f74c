//! Reconstruction of sparse volumes, where the empty would outweigh the occupied.

use burn::tensor::Tensor;
use leanburn_ops::numerics::widen;
use serde::{Deserialize, Serialize};

use super::shapes::assert_same_shape;

/// How a reconstruction is compared with its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The absolute difference.
    L1,
    /// The squared difference.
    #[default]
    L2,
}

/// How much more an occupied voxel counts than an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OccupancyWeight {
    /// A voxel is occupied where the absolute value of the target is above this.
    pub threshold: f64,
    /// What an occupied voxel counts; an empty one counts 1.
    pub weight: f64,
}

/// The weighted mean difference `sum(w d) / sum(w)`, in float32; the plain mean without weights.
///
/// As the weights are divided by their sum, the loss of a volume does not depend on how much of it is occupied.
///
/// # Shapes
///
/// - `prediction`, `target`: any, both the same
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: the difference and the weights, in float32.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn voxel_loss<const D: usize>(
    prediction: Tensor<D>,
    target: Tensor<D>,
    difference: Difference,
    occupancy: Option<OccupancyWeight>,
) -> Tensor<1> {
    assert_same_shape(&prediction, &target);
    let target = widen(target);
    let difference = match difference {
        Difference::L1 => (widen(prediction) - target.clone()).abs(),
        Difference::L2 => (widen(prediction) - target.clone()).square(),
    };
    let Some(OccupancyWeight { threshold, weight }) = occupancy else { return difference.mean() };
    let occupied = target.detach().abs().greater_elem(threshold).float();
    let weights = occupied * (weight - 1.0) + 1.0;
    let total = weights.clone().sum();
    (difference * weights).sum() / total
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    fn pair() -> (Tensor<1>, Tensor<1>) {
        let tensor = |values: [f32; 4]| Tensor::<1>::from_floats(values, &Device::flex());
        (tensor([1.0, 0.5, 0.0, 2.0]), tensor([0.0, 0.0, -2.0, 2.0]))
    }

    #[test]
    fn occupied_voxels_count_more() {
        let (prediction, target) = pair();
        let loss = |difference, occupancy| {
            voxel_loss(prediction.clone(), target.clone(), difference, occupancy).into_scalar::<f32>()
        };
        assert_eq!(loss(Difference::L1, None), 3.5 / 4.0);
        assert_eq!(loss(Difference::L2, None), 5.25 / 4.0);
        let three = Some(OccupancyWeight { threshold: 0.1, weight: 3.0 });
        assert_eq!(loss(Difference::L1, three), (1.5 + 3.0 * 2.0) / 8.0);
        assert_eq!(loss(Difference::L2, three), (1.25 + 3.0 * 4.0) / 8.0);
        let same = Some(OccupancyWeight { threshold: 0.1, weight: 1.0 });
        assert_eq!(loss(Difference::L2, same), loss(Difference::L2, None));
    }

    #[test]
    fn the_mean_is_taken_in_float32() {
        let (prediction, target) = pair();
        let occupancy = Some(OccupancyWeight { threshold: 0.1, weight: 3.0 });
        let half = voxel_loss(prediction.cast(DType::F16), target.cast(DType::F16), Difference::L2, occupancy);
        assert_eq!(half.dtype(), DType::F32);
    }
}

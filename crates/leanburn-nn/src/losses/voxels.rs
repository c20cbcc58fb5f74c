//! Reconstruction of sparse volumes, where the empty would outweigh the occupied.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::widen;
use serde::{Deserialize, Serialize};

use super::shapes::assert_same_shape;
use crate::validation::Rules;

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

impl Difference {
    /// The difference of each value, in float32.
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ.
    pub fn of<const D: usize>(self, prediction: Tensor<D>, target: Tensor<D>) -> Tensor<D> {
        assert_same_shape(&prediction, &target);
        let difference = widen(prediction) - widen(target);
        match self {
            Self::L1 => difference.abs(),
            Self::L2 => difference.square(),
        }
    }
}

/// The loss of a reconstruction of voxels, most of which may be empty.
///
/// `sum(w d) / sum(w) + f mean((relu(p) e)^2) + m mean |mean relu(p) - mean relu(t)|`: the differences `d` of all channels, weighted by `w`, the
/// product of the weights of the channel and of what is occupied; then what is predicted where nothing is, and how much too much or too little is predicted in an
/// item, both of the first channel `p` alone, that of the occupancy (`t` in the target, `e` is 1 where it is empty, else 0). As the weights are divided by their sum,
/// the loss of a volume does not depend on how much of it is occupied.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_nn::losses::VoxelLoss;
///
/// let zeros = Tensor::<5>::zeros([1, 4, 2, 3, 3], &Device::flex());
/// let mut loss = VoxelLoss { occupancy_weight: 8.0, false_positive_weight: 0.5, ..VoxelLoss::default() };
/// loss.channel_weights = Some(vec![4.0, 0.2, 0.5, 0.2]);
/// assert_eq!(loss.forward(zeros.clone() + 1.0, zeros).into_scalar::<f32>(), 1.5);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoxelLoss {
    /// How values are compared.
    pub difference: Difference,
    /// A value is occupied where the absolute value of the target is above this.
    pub occupancy_threshold: f64,
    /// What an occupied value counts; an empty one counts 1.
    pub occupancy_weight: f64,
    /// What the values of each channel count; `None` for all channels alike.
    pub channel_weights: Option<Vec<f64>>,
    /// Weight of what is predicted where nothing is (`f` above).
    pub false_positive_weight: f64,
    /// Weight of how much too much or too little is predicted (`m` above).
    pub occupancy_mass_weight: f64,
}

impl Default for VoxelLoss {
    /// Squared differences, all values alike, and nothing more.
    fn default() -> Self {
        Self {
            difference: Difference::L2,
            occupancy_threshold: 0.5,
            occupancy_weight: 1.0,
            channel_weights: None,
            false_positive_weight: 0.0,
            occupancy_mass_weight: 0.0,
        }
    }
}

impl VoxelLoss {
    /// Everything that is wrong with the weights, for volumes of so many channels.
    #[must_use]
    pub fn validate(&self, channels: usize) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.weight("occupancy_threshold", self.occupancy_threshold);
        validation.positive("occupancy_weight", self.occupancy_weight, "use 1 for no difference");
        validation.weight("false_positive_weight", self.false_positive_weight);
        validation.weight("occupancy_mass_weight", self.occupancy_mass_weight);
        if let Some(weights) = &self.channel_weights {
            let is_sound = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
                && weights.len() == channels
                && weights.iter().sum::<f64>() > 0.0;
            validation.check(
                is_sound,
                "channel_weights",
                &format!("a number of at least 0 for each of {channels} channels, not all of them 0"),
                format!("{weights:?}"),
                "write 1 for a channel that counts as usual",
            );
        }
        validation.errors()
    }

    /// The loss, in float32.
    ///
    /// # Shapes
    ///
    /// - `prediction`, `target`: `[batch_size, channels, depth, height, width]`
    /// - output: `[1]`
    ///
    /// # Memory
    ///
    /// Saved for backward: the differences and, where values have weights, the weights, in float32; what is predicted where nothing is, and the sign of the first
    /// channel's prediction, where they are penalised.
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ, or with the [errors](Self::validate).
    pub fn forward(&self, prediction: Tensor<5>, target: Tensor<5>) -> Tensor<1> {
        panic_if_invalid("VoxelLoss", &self.validate(target.dims()[1]));
        let target = widen(target);
        // penalties first, as the difference then uses both volumes up
        let penalties = self.penalties(&prediction, &target);
        let weights = self.weights(&target);
        let difference = self.difference.of(prediction, target);
        let distance = match weights {
            None => difference.mean(),
            Some(weights) => {
                let total = weights.clone().sum();
                (difference * weights).sum() / total
            }
        };
        penalties.into_iter().fold(distance, |loss, penalty| loss + penalty)
    }

    /// What is predicted where nothing is, and the wrong masses, as far as they have weights.
    fn penalties(&self, prediction: &Tensor<5>, target: &Tensor<5>) -> Vec<Tensor<1>> {
        let first = |volume: &Tensor<5>| widen(volume.clone().narrow(1, 0, 1));
        let mut penalties = Vec::new();
        if self.false_positive_weight != 0.0 {
            let empty = first(target).abs().lower_equal_elem(self.occupancy_threshold).float();
            let predicted = relu(first(prediction)) * empty;
            penalties.push(predicted.square().mean() * self.false_positive_weight);
        }
        if self.occupancy_mass_weight != 0.0 {
            let mass = |volume| relu(first(volume)).flatten::<2>(1, 4).mean_dim(1);
            penalties.push((mass(prediction) - mass(target)).abs().mean() * self.occupancy_mass_weight);
        }
        penalties
    }

    /// What each value counts; none where all count alike.
    fn weights(&self, target: &Tensor<5>) -> Option<Tensor<5>> {
        let occupied = (self.occupancy_weight != 1.0).then(|| {
            let occupied = target.clone().detach().abs().greater_elem(self.occupancy_threshold).float();
            occupied * (self.occupancy_weight - 1.0) + 1.0
        });
        let Some(channels) = &self.channel_weights else { return occupied };
        let channels: Vec<f32> = channels.iter().map(|weight| *weight as f32).collect();
        let channels = Tensor::<1>::from_floats(channels.as_slice(), &target.device());
        let channels = channels.reshape([1, -1, 1, 1, 1]).expand(target.shape());
        Some(match occupied {
            Some(occupied) => occupied * channels,
            None => channels,
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;
    use crate::validation::keys;

    /// Two channels of two voxels.
    fn pair() -> (Tensor<5>, Tensor<5>) {
        let volume = |values: [f32; 4]| Tensor::<1>::from_floats(values, &Device::flex()).reshape([1, 2, 1, 1, 2]);
        (volume([1.0, 0.5, 0.0, 2.0]), volume([0.0, 0.0, -2.0, 2.0]))
    }

    fn loss(loss: VoxelLoss) -> f32 {
        let (prediction, target) = pair();
        loss.forward(prediction, target).into_scalar::<f32>()
    }

    #[test]
    fn each_error_is_found() {
        assert!(VoxelLoss::default().validate(1).is_empty());
        let wrong = |weights: &[f64]| {
            keys(VoxelLoss { channel_weights: Some(weights.to_vec()), ..VoxelLoss::default() }.validate(2))
        };
        assert!(wrong(&[1.0, 0.0]).is_empty());
        for weights in [&[1.0][..], &[1.0, -1.0], &[0.0, 0.0], &[1.0, f64::NAN], &[1.0; 3]] {
            assert_eq!(wrong(weights), ["channel_weights"]);
        }
        let all = VoxelLoss {
            occupancy_threshold: -1.0,
            occupancy_weight: 0.0,
            false_positive_weight: f64::INFINITY,
            occupancy_mass_weight: -1.0,
            ..VoxelLoss::default()
        };
        let expected = ["occupancy_threshold", "occupancy_weight", "false_positive_weight", "occupancy_mass_weight"];
        assert_eq!(keys(all.validate(1)), expected);
    }

    #[test]
    fn occupied_voxels_and_channels_count_more() {
        let of = |difference, occupancy_weight, channel_weights: Option<[f64; 2]>| {
            let channel_weights = channel_weights.map(|weights| weights.to_vec());
            loss(VoxelLoss {
                difference,
                occupancy_threshold: 0.1,
                occupancy_weight,
                channel_weights,
                ..VoxelLoss::default()
            })
        };
        assert_eq!(of(Difference::L1, 1.0, None), 3.5 / 4.0);
        assert_eq!(of(Difference::L2, 1.0, None), 5.25 / 4.0);
        assert_eq!(of(Difference::L1, 3.0, None), (1.5 + 3.0 * 2.0) / 8.0);
        assert_eq!(of(Difference::L2, 3.0, None), (1.25 + 3.0 * 4.0) / 8.0);
        assert_eq!(of(Difference::L2, 1.0, Some([4.0, 1.0])), (4.0 * 1.25 + 4.0) / 10.0);
        assert_eq!(of(Difference::L2, 3.0, Some([4.0, 0.5])), (4.0 * 1.25 + 1.5 * 4.0) / 11.0);
    }

    /// Of the first channel alone: the second has a false voxel of its own.
    #[test]
    fn what_is_predicted_where_nothing_is_and_its_sum_cost() {
        let plain = loss(VoxelLoss::default());
        let more = |false_positive_weight, occupancy_mass_weight| {
            loss(VoxelLoss { false_positive_weight, occupancy_mass_weight, ..VoxelLoss::default() }) - plain
        };
        assert_eq!(more(2.0, 0.0), 2.0 * (1.0 + 0.25) / 2.0);
        assert_eq!(more(0.0, 2.0), 2.0 * 0.75);
        let (prediction, target) = pair();
        let false_positives =
            VoxelLoss { false_positive_weight: 2.0, occupancy_threshold: 0.1, ..VoxelLoss::default() };
        let of = |prediction: &Tensor<5>, target: &Tensor<5>| {
            false_positives.forward(prediction.clone(), target.clone()).into_scalar::<f32>()
        };
        assert_eq!(of(&target, &prediction), plain, "nothing is predicted");
        assert_eq!(of(&prediction, &prediction), 0.0, "all that is predicted is there");
        let missed = VoxelLoss { occupancy_mass_weight: 2.0, ..VoxelLoss::default() };
        assert_eq!(missed.forward(target, prediction).into_scalar::<f32>(), plain + 2.0 * 0.75);
    }

    /// Too much in one item does not make up for too little in another.
    #[test]
    fn sums_are_compared_item_by_item() {
        let volume = |values: [f32; 2]| Tensor::<1>::from_floats(values, &Device::flex()).reshape([2, 1, 1, 1, 1]);
        let loss = VoxelLoss { occupancy_mass_weight: 1.0, ..VoxelLoss::default() };
        let loss = loss.forward(volume([1.0, 0.0]), volume([0.0, 1.0])).into_scalar::<f32>();
        assert_eq!(loss, 2.0);
    }

    #[test]
    fn the_mean_is_taken_in_float32() {
        let (prediction, target) = pair();
        let loss = VoxelLoss {
            occupancy_weight: 3.0,
            false_positive_weight: 1.0,
            occupancy_mass_weight: 1.0,
            ..VoxelLoss::default()
        };
        let half = loss.forward(prediction.cast(DType::F16), target.cast(DType::F16));
        assert_eq!(half.dtype(), DType::F32);
    }
}

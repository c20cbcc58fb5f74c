//! A perceptual loss as one term of an objective.

use burn::tensor::Tensor;
use leanburn_nn::losses::{FeatureLoss3d, Lpips};
use leanburn_ops::recording::{self, TensorRole};

use crate::StepPosition;

/// A perceptual loss and how much it counts. Its network is fixed: it belongs to no learner and to no checkpoint.
///
/// # Memory
///
/// As the loss says.
#[derive(Debug)]
pub struct Perceptual {
    /// What compares.
    pub kind: PerceptualKind,
    /// How much it counts.
    pub weight: f64,
}

/// What compares a volume with its reconstruction.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum PerceptualKind {
    /// Fixed random features of the whole volume.
    Features(FeatureLoss3d),
    /// A network trained on photographs that compares slices, one channel at a time; values 0 to 1.
    Slices(Lpips),
}

impl Perceptual {
    /// The distance, unweighted; each micro-batch of a run draws slices of its own.
    pub(crate) fn distance(&self, reconstruction: Tensor<5>, target: Tensor<5>, position: StepPosition) -> Tensor<1> {
        match &self.kind {
            PerceptualKind::Features(loss) => {
                recording::tag_module(TensorRole::Weights, loss);
                loss.forward(reconstruction, target)
            }
            PerceptualKind::Slices(loss) => {
                recording::tag_module(TensorRole::Weights, loss);
                let [reconstruction, target] =
                    [reconstruction, target].map(|volume| channel_by_channel(volume) * 2.0 - 1.0);
                let draw = leanburn_ops::random::derive(position.seed, &[SLICES, position.step, position.micro_batch]);
                loss.forward(reconstruction, target, draw)
            }
        }
    }
}

/// Where the draws of slices stand among all that is derived from a run's seed.
const SLICES: u64 = 0x0051_1ce5;

/// Each channel as an item of the batch.
fn channel_by_channel(volumes: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = volumes.dims();
    volumes.reshape([batch_size * channels, 1, depth, height, width])
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};
    use leanburn_nn::losses::{LpipsConfig, Plane};

    use super::*;

    #[test]
    fn the_seed_of_the_run_and_the_position_choose_the_slices() {
        let device = Device::flex();
        let config = LpipsConfig::new().with_planes(vec![Plane::Depth]).with_slice_share(1.0 / 32.0);
        let loss = Perceptual { kind: PerceptualKind::Slices(config.init(&device)), weight: 1.0 };
        let [x, y] = [0, 1].map(|_| Tensor::random([1, 1, 32, 25, 25], Distribution::Default, &device));
        let at = |seed, step, micro_batch| {
            let position = StepPosition { seed, step, micro_batch };
            loss.distance(x.clone(), y.clone(), position).into_scalar::<f32>()
        };
        assert_eq!(at(1, 0, 0), at(1, 0, 0));
        // One slice of 32 each time: eight that are all the same by chance are not to be expected.
        for others in [|seed| (seed, 0, 0), |step| (1, step, 0), |micro_batch| (1, 0, micro_batch)] {
            let mut seen: Vec<f32> = (0..8).map(others).map(|(seed, step, micro)| at(seed, step, micro)).collect();
            seen.sort_by(f32::total_cmp);
            seen.dedup();
            assert!(seen.len() > 2, "{seen:?}");
        }
    }
}

//! A perceptual loss as one term of an objective.

use burn::tensor::Tensor;
use leanburn_nn::losses::{FeatureLoss3d, Lpips};
use leanburn_ops::recording::{self, Purpose};

use crate::Moment;

/// A perceptual loss and how much it counts. Its network is fixed: it belongs to no learner and to no checkpoint.
///
/// # Memory
///
/// As the loss says. A known gap: of [`PerceptualKind::Features`], plans count one volume of the finest features too few where
/// the peak stands in its backward pass (4.6 % of the step of a small voxel autoencoder that keeps everything).
/// Of [`PerceptualKind::Slices`] with squeeze they count 0.4 MiB too few in forward for every few slices; what was measured of
/// whole steps was 1.6 % more than planned at 64^3, 2.3 % more at 32x64x64, and half a MiB more at 8x28x28.
#[derive(Debug)]
pub struct Perceptual {
    /// What compares.
    pub kind: PerceptualKind,
    /// How much it counts.
    pub weight: f64,
}

/// What looks at a volume and its reconstruction.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum PerceptualKind {
    /// Fixed random features of the whole volume.
    Features(FeatureLoss3d),
    /// A network trained on photographs that looks at slices, one channel at a time; values 0 to 1.
    Slices(Lpips),
}

impl Perceptual {
    /// The distance, unweighted; all micro-batches of a step look at slices of their own.
    pub(crate) fn distance(&self, reconstruction: Tensor<5>, target: Tensor<5>, moment: Moment) -> Tensor<1> {
        match &self.kind {
            PerceptualKind::Features(loss) => {
                recording::serves(Purpose::Weights, loss);
                loss.forward(reconstruction, target)
            }
            PerceptualKind::Slices(loss) => {
                recording::serves(Purpose::Weights, loss);
                let [reconstruction, target] =
                    [reconstruction, target].map(|volume| channel_by_channel(volume) * 2.0 - 1.0);
                loss.forward(reconstruction, target, leanburn_ops::random::derive(moment.step, &[moment.micro_batch]))
            }
        }
    }
}

/// Each channel as an item of the batch.
fn channel_by_channel(volumes: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = volumes.dims();
    volumes.reshape([batch_size * channels, 1, depth, height, width])
}

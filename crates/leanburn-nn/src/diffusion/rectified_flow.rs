//! Straight lines between noise and sample.
//!
//! Liu et al., [Flow Straight and Fast](https://arxiv.org/abs/2209.03003): `x_u = (1 - u) sample + u noise`; the network gives the velocity
//! `sample - noise`. Esser et al., [Scaling Rectified Flow Transformers](https://arxiv.org/abs/2403.03206): times for larger volumes, and
//! times of training from a logit-normal distribution.

use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, f16};
use leanburn_ops::random;
use serde::{Deserialize, Serialize};

use super::sampler::{Compatible, Network, Sampler, assert_steps};

/// Sampling along straight lines in a number of steps, and the training that goes with it.
///
/// MONAI rounds times to float16, and to whole numbers where a step ends, and ignores the scale of the transform.
#[derive(Clone, Debug)]
pub struct RectifiedFlow {
    num_train_timesteps: usize,
    steps: usize,
    use_discrete_timesteps: bool,
    transform: Option<(TimeTransform, usize)>,
    compatible: Compatible,
}

/// More time where there is much noise, for volumes larger than a base: noise hides less of what has more voxels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeTransform {
    /// Voxels of the volume whose times are not changed.
    pub base_img_size_numel: usize,
    /// A factor of the ratio of sides.
    pub transform_scale: f64,
}

/// Where the times of training come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeDistribution {
    /// Any time alike.
    #[default]
    Uniform,
    /// The sigmoid of a normal variable: times in the middle more often.
    LogitNormal {
        /// Its mean.
        loc: f64,
        /// Its deviation.
        scale: f64,
    },
}

impl Default for TimeTransform {
    /// That of MONAI: 32 voxels along each axis.
    fn default() -> Self {
        Self { base_img_size_numel: 32 * 32 * 32, transform_scale: 1.0 }
    }
}

impl TimeTransform {
    /// By how much early times are stretched for a volume of so many voxels.
    fn ratio(self, voxels: usize, compatible: Compatible) -> f64 {
        let sides = (voxels as f64 / self.base_img_size_numel as f64).cbrt();
        if compatible == Compatible::Monai { sides } else { sides * self.transform_scale }
    }
}

impl RectifiedFlow {
    /// The sampler of a model that was trained with whole times up to `num_train_timesteps`.
    ///
    /// # Panics
    ///
    /// Panics if there are no steps, or more than times.
    pub fn new(num_train_timesteps: usize, steps: usize) -> Self {
        assert_steps("RectifiedFlow", steps, num_train_timesteps);
        let compatible = Compatible::default();
        Self { num_train_timesteps, steps, use_discrete_timesteps: true, transform: None, compatible }
    }

    /// Sets whether times are whole numbers.
    #[must_use]
    pub fn with_use_discrete_timesteps(self, use_discrete_timesteps: bool) -> Self {
        Self { use_discrete_timesteps, ..self }
    }

    /// Sets the transform of times, for latents of so many voxels.
    #[must_use]
    pub fn with_transform(self, transform: TimeTransform, voxels: usize) -> Self {
        Self { transform: Some((transform, voxels)), ..self }
    }

    /// Sets whose arithmetic it has.
    #[must_use]
    pub fn with_compatible(self, compatible: Compatible) -> Self {
        Self { compatible, ..self }
    }

    /// `(1 - u) sample + u noise`, `u` the time of each item divided by the number of times.
    ///
    /// # Shapes
    ///
    /// - sample, noise and output: `[batch_size, channels, depth, height, width]`
    /// - times: `[batch_size]`
    pub fn add_noise(&self, sample: Tensor<5>, noise: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        let share = (times / self.num_train_timesteps as f64).reshape([-1, 1, 1, 1, 1]);
        sample.clone() + (noise - sample) * share
    }

    /// Times of training for so many items, `[batch_size]`.
    pub fn training_times(&self, distribution: TimeDistribution, batch_size: usize, device: &Device) -> Tensor<1> {
        let times = match distribution {
            TimeDistribution::Uniform => random::uniform([batch_size], device),
            TimeDistribution::LogitNormal { loc, scale } => sigmoid(random::normal([batch_size], device) * scale + loc),
        };
        let last = self.num_train_timesteps as f64;
        let times = times * last;
        let times = if self.use_discrete_timesteps { times.floor() } else { times };
        match self.transform {
            None => times,
            Some((transform, voxels)) => {
                let ratio = transform.ratio(voxels, self.compatible);
                let share = times / last;
                share.clone() * (ratio * last) / (share * (ratio - 1.0) + 1.0)
            }
        }
    }

    fn transformed(&self, time: f64) -> f64 {
        let Some((transform, voxels)) = self.transform else { return time };
        let (ratio, last) = (transform.ratio(voxels, self.compatible), self.num_train_timesteps as f64);
        let share = time / last;
        ratio * share / (1.0 + (ratio - 1.0) * share) * last
    }
}

impl Sampler for RectifiedFlow {
    fn times(&self) -> Vec<f64> {
        let time = |step: usize| {
            let time = (1.0 - step as f64 / self.steps as f64) * self.num_train_timesteps as f64;
            let time = self.transformed(if self.use_discrete_timesteps { time.round_ties_even() } else { time });
            match (self.compatible, self.use_discrete_timesteps) {
                (Compatible::Papers, false) => time,
                (Compatible::Papers, true) => time.round_ties_even(),
                (Compatible::Monai, false) => f16::from_f64(time).to_f64(),
                (Compatible::Monai, true) => f16::from_f64(time).to_f64().floor(),
            }
        };
        (0..self.steps).map(time).collect()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        _draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let times = self.times();
        let following = times[1..].iter().copied().chain([0.0]);
        times.iter().zip(following).fold(noise, |x, (time, following)| {
            let following = if self.compatible == Compatible::Monai { following.floor() } else { following };
            let velocity = network(x.clone(), *time);
            x + velocity * ((time - following) / self.num_train_timesteps as f64)
        })
    }
}

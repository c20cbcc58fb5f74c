//! What all samplers have in common.

use burn::tensor::Tensor;
use leanburn_ops::random;

/// What a sampler asks: the network's output for a noisy volume at a time (of a [`Karras`](super::Karras) sampler: the denoised volume at a
/// noise level).
pub type Network<'a> = dyn FnMut(Tensor<5>, f64) -> Tensor<5> + 'a;

/// A way from noise to a sample.
pub trait Sampler {
    /// The times at which the network is asked, in order.
    fn times(&self) -> Vec<f64>;

    /// The sample that the noise becomes. `draw` gives standard normal noise of the shape of a volume, where the way is random.
    ///
    /// # Shapes
    ///
    /// - noise, what the network is given, and output: `[batch_size, channels, depth, height, width]`
    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5>;

    /// The sample that standard normal noise becomes; further noise comes from [`random`](leanburn_ops::random).
    fn sample(&self, noise: Tensor<5>, mut network: impl FnMut(Tensor<5>, f64) -> Tensor<5>) -> Tensor<5>
    where
        Self: Sized,
    {
        self.sample_with(noise, &mut network, &mut |like| random::normal(like.dims(), &like.device()))
    }
}

/// Whose arithmetic a sampler has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compatible {
    /// That of the papers.
    #[default]
    Papers,
    /// That of MONAI 1.6.1, with what is wrong in it.
    Monai,
}

/// `steps` whole times from `last` to 0, evenly spread.
pub(super) fn spread_times(last: usize, steps: usize) -> Vec<usize> {
    let gaps = steps.saturating_sub(1).max(1) as f64;
    (0..steps).map(|step| (last as f64 * (1.0 - step as f64 / gaps)).round_ties_even() as usize).collect()
}

/// Panics unless there are 1 to `num_train_timesteps` steps.
#[track_caller]
pub(super) fn assert_steps(sampler: &str, steps: usize, num_train_timesteps: usize) {
    let sound = (1..=num_train_timesteps).contains(&steps);
    assert!(
        sound,
        "{sampler}: {steps} steps, expected 1 to {num_train_timesteps}, the times that the model was trained at"
    );
}

/// Each time with the one that follows it.
pub(super) fn with_following(times: &[usize]) -> impl Iterator<Item = (usize, Option<usize>)> {
    times.iter().enumerate().map(|(index, time)| (*time, times.get(index + 1).copied()))
}

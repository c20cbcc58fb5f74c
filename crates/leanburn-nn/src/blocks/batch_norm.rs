//! Batch normalisation with float32 statistics and PyTorch's running estimates.

use burn::config::Config;
use burn::module::{Flag, Module, Param, RunningState};
use burn::nn::{self, Initializer};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, assert_shape, module};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::in_wide;
use leanburn_ops::{Convolution, StageEntry, Stages, Volume, has_rank_sums, sum_over_ranks};

use super::initial;
use crate::validation::Rules;

/// Configuration of [`BatchNorm`].
#[derive(Config, Debug)]
pub struct BatchNormConfig {
    /// Number of channels.
    pub num_channels: usize,
    /// Added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Share of the batch in the new running estimates.
    #[config(default = 0.1)]
    pub momentum: f64,
    /// Distribution of the scale.
    #[config(default = "Initializer::Ones")]
    pub initializer: Initializer,
}

impl BatchNormConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("num_channels", self.num_channels);
        validation.positive("epsilon", self.epsilon, "use 1e-5");
        let sound = (0.0..=1.0).contains(&self.momentum);
        validation.check(sound, "momentum", "a number from 0 to 1", self.momentum, "use 0.1");
        validation.errors()
    }

    /// Makes the layer with shift zero, running mean zero and running variance one.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> BatchNorm {
        panic_if_invalid("BatchNorm", &self.validate());
        BatchNorm {
            weight: initial::described(&self.initializer, [self.num_channels], [self.num_channels; 2], device),
            bias: Initializer::Zeros.init([self.num_channels], device),
            running_mean: RunningState::new(Tensor::zeros([self.num_channels], device)),
            running_var: RunningState::new(Tensor::ones([self.num_channels], device)),
            training: Param::from_bool(true),
            epsilon: self.epsilon,
            momentum: self.momentum,
        }
    }
}

/// Normalises each channel over the batch to mean zero and variance one, then scales and shifts it.
///
/// Source: [Batch Normalization](https://arxiv.org/abs/1502.03167). On an autodiff device, and unless frozen, it uses
/// the statistics of the batch and moves its running estimates; elsewhere it uses the running estimates. As in
/// PyTorch, and other than in Burn's layer, the running variance is estimated without bias (`n - 1`).
///
/// # Memory
///
/// Saved for backward: the input (in float32).
///
/// # Several processes
///
/// Statistics are those of this process's batch, or of all, where they [are summed](leanburn_ops::with_rank_sums): the same as of one
/// batch with the items of all, to 1e-6.
#[derive(Module, Debug)]
pub struct BatchNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    running_mean: RunningState<Tensor<1>>,
    running_var: RunningState<Tensor<1>>,
    training: Param<Flag>,
    epsilon: f64,
    momentum: f64,
}

impl BatchNorm {
    /// Applies the normalisation.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, num_channels, ..]`, of any rank from 2
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `num_channels` channels.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let num_channels = self.weight.shape()[0];
        assert_shape!(x, [_, num_channels, ..]);
        match x.device().is_autodiff() && self.training.is_enabled() {
            true => in_wide(x, |x| self.forward_batch(x)),
            false => in_wide(x, |x| self.forward_running(x)),
        }
    }

    fn forward_batch<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if has_rank_sums() {
            return self.forward_ranks(x);
        }
        let samples = x.shape().num_elements() / x.dims()[1];
        let batch = module::batch_norm_train(x, self.weight.val(), self.bias.val(), self.epsilon);
        let unbiased = samples as f64 / samples.saturating_sub(1).max(1) as f64;
        self.update(&self.running_mean, batch.mean);
        self.update(&self.running_var, batch.variance * unbiased);
        batch.output
    }

    /// With the statistics of the batches of all processes: one exchange of means, one of variances, and as many in backward.
    fn forward_ranks<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let num_channels = x.dims()[1];
        let mut of_channels = [1; D];
        of_channels[1] = num_channels;
        let samples = (x.shape().num_elements() / num_channels) as f64;
        let channel_sum = |x: Tensor<D>| {
            let mean = (0..D).filter(|axis| *axis != 1).fold(x, |x, axis| x.mean_dim(axis));
            sum_over_ranks(mean * samples)
        };
        let count: f32 = sum_over_ranks(Tensor::<1>::full([1], samples, &x.device().inner())).into_scalar();
        let count = f64::from(count);
        let mean = channel_sum(x.clone()) / count;
        let centered = x - mean.clone();
        let variance = channel_sum(centered.clone().powi_scalar(2)) / count;
        self.update(&self.running_mean, mean.reshape([num_channels]));
        self.update(&self.running_var, variance.clone().reshape([num_channels]) * (count / (count - 1.0).max(1.0)));
        let scale = self.weight.val().reshape(of_channels) / (variance + self.epsilon).sqrt();
        centered * scale + self.bias.val().reshape(of_channels)
    }

    fn forward_running<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let device = x.device();
        let mean = on(&device, self.running_mean.value());
        let variance = on(&device, self.running_var.value());
        module::batch_norm(x, self.weight.val(), self.bias.val(), mean, variance, self.epsilon)
    }

    #[cfg(test)]
    pub(crate) fn running_mean(&self) -> Tensor<1> {
        self.running_mean.value_sync()
    }

    /// What is in front of an activation or a convolution in [stages](Stages), and the volume that it takes.
    ///
    /// With the statistics of the batch it is a norm of the stage, whose statistics move the running estimates once, when forward knows
    /// them. With the running estimates it scales and shifts each channel: a stage of its own, a convolution of single voxels and channels.
    pub(crate) fn in_stages(&self, stages: &mut Stages, x: Volume) -> (Volume, StageEntry) {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        let entry = StageEntry::default();
        if weight.device().is_autodiff() && self.training.is_enabled() {
            let norm = self.clone();
            let entry = entry.with_batch_norm(self.epsilon, weight, bias, move |mean, variance, count| {
                norm.update(&norm.running_mean, mean);
                norm.update(&norm.running_var, variance * (count as f64 / count.saturating_sub(1).max(1) as f64));
            });
            return (x, entry);
        }
        let [num_channels] = weight.dims();
        let device = weight.device();
        let (mean, variance) = (on(&device, self.running_mean.value()), on(&device, self.running_var.value()));
        let scale = weight / (variance + self.epsilon).sqrt();
        let bias = Some(bias - mean * scale.clone());
        let options = ConvOptions::new([1; 3], [0; 3], [1; 3], num_channels);
        let weight = scale.reshape([num_channels, 1, 1, 1, 1]);
        (stages.conv3d(x, Convolution { weight, bias, options }), entry)
    }

    fn update(&self, state: &RunningState<Tensor<1>>, batch: Tensor<1>) {
        let running = on(&batch.device(), state.value_sync());
        let moved = running * (1.0 - self.momentum) + batch.detach() * self.momentum;
        state.update(moved.detach());
        // Without this the update stays pending until the next forward, and a model saved before that lacks it.
        state.value_sync();
    }
}

/// Burn's layer with its weights, running statistics and whether it trains; nothing is copied. It gives the same outputs and
/// gradients. Its running variance goes on without bias, as PyTorch's does; Burn's has one.
impl From<nn::BatchNorm> for BatchNorm {
    fn from(norm: nn::BatchNorm) -> Self {
        let nn::BatchNorm { gamma, beta, training, running_mean, running_var, momentum, epsilon } = norm;
        Self { weight: gamma, bias: beta, running_mean, running_var, training, epsilon, momentum }
    }
}

/// The layer as Burn's; see the conversion from it.
impl From<BatchNorm> for nn::BatchNorm {
    fn from(norm: BatchNorm) -> Self {
        let BatchNorm { weight, bias, running_mean, running_var, training, epsilon, momentum } = norm;
        Self { gamma: weight, beta: bias, training, running_mean, running_var, momentum, epsilon }
    }
}

/// The tensor on `device`; no operation where it is there already, which a recording device rejects.
pub(super) fn on<const D: usize>(device: &Device, tensor: Tensor<D>) -> Tensor<D> {
    if tensor.device() == *device { tensor } else { tensor.to_device(device) }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tolerance;

    use super::*;

    fn values() -> [f32; 4] {
        [1.0, 2.0, 3.0, 6.0]
    }

    #[test]
    fn the_running_variance_is_unbiased() {
        let device = Device::flex().autodiff();
        let norm = BatchNormConfig::new(1).init(&device);
        norm.forward(Tensor::<1>::from_floats(values(), &device).reshape([2, 1, 2]));
        // mean 3, variance (4 + 1 + 0 + 9) / 3
        let close = Tolerance::relative(1e-6);
        norm.running_mean.value().into_data().assert_approx_eq::<f32>(&[0.3f32].into(), close);
        norm.running_var.value().into_data().assert_approx_eq::<f32>(&[0.9f32 + 0.1 * 14.0 / 3.0].into(), close);
    }

    #[test]
    fn frozen_or_without_autodiff_the_running_estimates_are_used_and_stay() {
        let (plain, train) = (Device::flex(), Device::flex().autodiff());
        for (norm, device) in [
            (BatchNormConfig::new(1).init(&plain), plain.clone()),
            (BatchNormConfig::new(1).init(&train).freeze(), train),
        ] {
            let x = Tensor::<1>::from_floats(values(), &device).reshape([2, 1, 2]);
            let y = norm.forward(x.clone());
            y.into_data().assert_approx_eq::<f32>(&x.into_data(), Tolerance::relative(1e-4));
            assert_eq!(norm.running_mean.value_sync().into_data().try_to_vec::<f32>().unwrap(), [0.0]);
        }
    }
}

//! Ancestral sampling.
//!
//! Ho et al., [Denoising Diffusion Probabilistic Models](https://arxiv.org/abs/2006.11239): the noise of a step is drawn from what the
//! process leaves open between two times. In fewer steps than the model was trained with, the two times are those of the steps (Nichol and
//! Dhariwal, [Improved DDPM](https://arxiv.org/abs/2102.09672)). MONAI takes neighbouring times of training whatever the steps.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::process::DiffusionProcess;
use super::sampler::{Compatible, Network, Sampler, assert_steps, spread_times, with_following};

/// The variance of the noise of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variance {
    /// That of the process with a known sample: the smallest that is right for some data.
    #[default]
    FixedSmall,
    /// That of the step's own beta: the largest.
    FixedLarge,
    /// The second half of the network's channels.
    Learned,
    /// Between the two fixed ones; the second half of the network's channels, from -1 to 1, says where. Logarithms are interpolated, as in
    /// the paper; MONAI interpolates the variances.
    LearnedRange,
}

/// Ancestral sampling in a number of steps.
#[derive(Clone, Debug)]
pub struct Ddpm {
    process: DiffusionProcess,
    steps: usize,
    variance: Variance,
    compatible: Compatible,
}

impl Ddpm {
    /// The sampler.
    ///
    /// # Panics
    ///
    /// Panics if there are no steps, or more than the process has times.
    pub fn new(process: DiffusionProcess, steps: usize) -> Self {
        assert_steps("Ddpm", steps, process.num_train_timesteps());
        Self { process, steps, variance: Variance::default(), compatible: Compatible::default() }
    }

    /// Sets the variance of the steps.
    #[must_use]
    pub fn with_variance(self, variance: Variance) -> Self {
        Self { variance, ..self }
    }

    /// Sets whose arithmetic it has.
    #[must_use]
    pub fn with_compatible(self, compatible: Compatible) -> Self {
        Self { compatible, ..self }
    }

    fn whole_times(&self) -> Vec<usize> {
        spread_times(self.process.num_train_timesteps() - 1, self.steps)
    }

    fn is_learned(&self) -> bool {
        matches!(self.variance, Variance::Learned | Variance::LearnedRange)
    }

    /// The deviation of a step's noise, for what the network says about it.
    fn deviation(&self, least: f64, most: f64, learned: Option<Tensor<5>>) -> Deviation {
        let least = least.max(1e-20);
        match (self.variance, learned) {
            (Variance::FixedLarge, _) => Deviation::Fixed(most.sqrt()),
            (Variance::Learned, Some(variance)) => Deviation::Learned(Box::new(variance.sqrt())),
            (Variance::LearnedRange, Some(share)) => {
                let share = (share + 1.0) / 2.0;
                Deviation::Learned(Box::new(match self.compatible {
                    Compatible::Papers => ((share * (most.ln() - least.ln()) + least.ln()) / 2.0).exp(),
                    Compatible::Monai => (share * (most - least) + least).sqrt(),
                }))
            }
            _ => Deviation::Fixed(least.sqrt()),
        }
    }
}

enum Deviation {
    Fixed(f64),
    Learned(Box<Tensor<5>>),
}

impl Sampler for Ddpm {
    fn times(&self) -> Vec<f64> {
        self.whole_times().into_iter().map(|time| time as f64).collect()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let channels = noise.dims()[1];
        with_following(&self.whole_times()).fold(noise, |x, (time, following)| {
            let output = network(x.clone(), time as f64);
            let (output, learned) = match self.is_learned() {
                true => (output.clone().narrow(1, 0, channels), Some(output.narrow(1, channels, channels))),
                false => (output, None),
            };
            let (sample, _) = self.process.split(output, &x, time);
            let following = match self.compatible {
                Compatible::Papers => following,
                Compatible::Monai => time.checked_sub(1),
            };
            let alpha = self.process.alpha_cumprod(time);
            let alpha_following = following.map_or(1.0, |time| self.process.alpha_cumprod(time));
            let beta = match self.compatible {
                Compatible::Papers => 1.0 - alpha / alpha_following,
                // the same but for the rounding of 1 - beta
                Compatible::Monai => self.process.beta(time),
            };
            let of_sample = alpha_following.sqrt() * beta / (1.0 - alpha);
            let of_x = (1.0 - beta).sqrt() * (1.0 - alpha_following) / (1.0 - alpha);
            let mean = sample * of_sample + x * of_x;
            if following.is_none() {
                return mean;
            }
            let noise = draw(&mean);
            let least = (1.0 - alpha_following) / (1.0 - alpha) * beta;
            match self.deviation(least, beta, learned) {
                Deviation::Fixed(deviation) => mean + noise * deviation,
                Deviation::Learned(deviation) => mean + noise * *deviation,
            }
        })
    }
}

//! Implicit sampling: no noise in between, or some.
//!
//! Song et al., [Denoising Diffusion Implicit Models](https://arxiv.org/abs/2010.02502), equations 12 and 16. A step goes to the time of the
//! next evaluation; MONAI's goes elsewhere where the steps do not divide the times. Where the sample is clipped, the noise is that which
//! belongs to the clipped sample; MONAI's is not.

use burn::tensor::Tensor;

use super::process::DiffusionProcess;
use super::sampler::{Compatible, Network, Sampler, assert_steps, spread_times, with_following};

/// Implicit sampling in a number of steps.
#[derive(Clone, Debug)]
pub struct Ddim {
    process: DiffusionProcess,
    steps: usize,
    eta: f64,
    set_alpha_to_one: bool,
    steps_offset: usize,
    compatible: Compatible,
}

impl Ddim {
    /// The sampler, without noise in between.
    ///
    /// # Panics
    ///
    /// Panics if there are no steps, or more than the process has times.
    pub fn new(process: DiffusionProcess, steps: usize) -> Self {
        assert_steps("Ddim", steps, process.num_train_timesteps());
        let compatible = Compatible::default();
        Self { process, steps, eta: 0.0, set_alpha_to_one: true, steps_offset: 0, compatible }
    }

    /// Sets the noise in between: with 1 it is that of [`Ddpm`](super::Ddpm).
    #[must_use]
    pub fn with_eta(self, eta: f64) -> Self {
        Self { eta, ..self }
    }

    /// Sets whether the last step takes all noise away, or what the process has at time 0 stays.
    #[must_use]
    pub fn with_set_alpha_to_one(self, set_alpha_to_one: bool) -> Self {
        Self { set_alpha_to_one, ..self }
    }

    /// Sets the last time.
    ///
    /// # Panics
    ///
    /// Panics if the process has no such time.
    #[must_use]
    pub fn with_steps_offset(self, steps_offset: usize) -> Self {
        let times = self.process.num_train_timesteps();
        assert!(steps_offset < times, "Ddim: steps_offset is {steps_offset}, expected less than {times}");
        Self { steps_offset, ..self }
    }

    /// Sets whose arithmetic it has.
    #[must_use]
    pub fn with_compatible(self, compatible: Compatible) -> Self {
        Self { compatible, ..self }
    }

    /// The noise that becomes this sample: the steps in the other direction, without noise in between. Source:
    /// [Diffusion Models Beat GANs](https://arxiv.org/abs/2105.05233), appendix F.
    ///
    /// Shapes are those of [`sample`](Sampler::sample).
    pub fn invert(&self, sample: Tensor<5>, mut network: impl FnMut(Tensor<5>, f64) -> Tensor<5>) -> Tensor<5> {
        let mut times = self.whole_times();
        times.reverse();
        if self.compatible == Compatible::Monai {
            times = (0..self.steps).map(|step| step * self.ratio()).collect();
        }
        let steps = with_following(&times).filter_map(|(time, following)| Some((time, following?)));
        steps.fold(sample, |x, (time, following)| {
            let output = network(x.clone(), time as f64);
            let (sample, noise) = self.split(output, &x, time);
            let alpha = self.process.alpha_cumprod(following);
            sample * alpha.sqrt() + noise * (1.0 - alpha).sqrt()
        })
    }

    fn whole_times(&self) -> Vec<usize> {
        let last = self.process.num_train_timesteps() - 1 - self.steps_offset;
        spread_times(last, self.steps).into_iter().map(|time| time + self.steps_offset).collect()
    }

    /// The whole part of the times between two steps.
    fn ratio(&self) -> usize {
        self.process.num_train_timesteps() / self.steps
    }

    fn split(&self, output: Tensor<5>, x: &Tensor<5>, time: usize) -> (Tensor<5>, Tensor<5>) {
        match self.compatible {
            Compatible::Papers => self.process.consistent_split(output, x, time),
            Compatible::Monai => self.process.split(output, x, time),
        }
    }
}

impl Sampler for Ddim {
    fn times(&self) -> Vec<f64> {
        self.whole_times().into_iter().map(|time| time as f64).collect()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let last = if self.set_alpha_to_one { 1.0 } else { self.process.alpha_cumprod(0) };
        with_following(&self.whole_times()).fold(noise, |x, (time, following)| {
            let output = network(x.clone(), time as f64);
            let (sample, noise) = self.split(output, &x, time);
            let following = match self.compatible {
                Compatible::Papers => following,
                Compatible::Monai => time.checked_sub(self.ratio()),
            };
            let alpha = self.process.alpha_cumprod(time);
            let alpha_following = following.map_or(last, |time| self.process.alpha_cumprod(time));
            let variance = (1.0 - alpha_following) / (1.0 - alpha) * (1.0 - alpha / alpha_following);
            let deviation = self.eta * variance.max(0.0).sqrt();
            let direction = (1.0 - alpha_following - deviation * deviation).max(0.0).sqrt();
            let x = sample * alpha_following.sqrt() + noise * direction;
            if self.eta > 0.0 { x.clone() + draw(&x) * deviation } else { x }
        })
    }
}

//! Samples in one step or a few.

use burn::tensor::Tensor;

use crate::diffusion::{Network, Sampler, karras_sigmas};

use super::levels::NoiseLevels;

/// Sampling with a consistency model: noise is denoised at once, and then again from each of the lower noise levels. Algorithm 1 of Song et al.,
/// [Consistency Models](https://arxiv.org/abs/2303.01469).
///
/// What it asks of the network is the denoised volume ([`EdmPreconditioning`](crate::diffusion::EdmPreconditioning)), and the times are noise
/// levels. Noise of level sigma is added to a sample that still has that of `sigma_min`.
#[derive(Clone, Debug)]
pub struct Multistep {
    sigmas: Vec<f64>,
    sigma_min: f64,
    clamp: Option<f64>,
}

impl Multistep {
    /// A sampler on these noise levels, the largest first, of a model that is the identity at `sigma_min`. One level is one step.
    ///
    /// # Panics
    ///
    /// Panics if there are no noise levels, or one is below `sigma_min`.
    pub fn new(sigmas: Vec<f64>, sigma_min: f64) -> Self {
        let sound = !sigmas.is_empty() && sigmas.iter().all(|sigma| *sigma >= sigma_min);
        assert!(sound, "Multistep: the noise levels are {sigmas:?}, expected some, of at least {sigma_min}");
        Self { sigmas, sigma_min, clamp: None }
    }

    /// A number of steps from `levels.sigma_max`, evenly spread as [`karras_sigmas`] are; the model is the identity at `sigma_min`.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn spread(steps: usize, levels: &NoiseLevels, sigma_min: f64) -> Self {
        let NoiseLevels { sigma_min: low, sigma_max: high, rho } = *levels;
        let mut sigmas = karras_sigmas(steps + 1, low, high, rho);
        sigmas.truncate(steps);
        Self::new(sigmas, sigma_min)
    }

    /// Sets the largest absolute value of denoised volumes. Latents have none.
    #[must_use]
    pub fn with_clamp(self, clamp: f64) -> Self {
        Self { clamp: Some(clamp), ..self }
    }
}

impl Sampler for Multistep {
    fn times(&self) -> Vec<f64> {
        self.sigmas.clone()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let mut denoise = |x: Tensor<5>, sigma: f64| match self.clamp {
            Some(most) => network(x, sigma).clamp(-most, most),
            None => network(x, sigma),
        };
        let sample = denoise(noise * self.sigmas[0], self.sigmas[0]);
        self.sigmas[1..].iter().fold(sample, |sample, sigma| {
            let deviation = (sigma * sigma - self.sigma_min * self.sigma_min).sqrt();
            let noise = draw(&sample);
            denoise(sample + noise * deviation, *sigma)
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use leanburn_ops::random;

    use super::*;

    /// With the exact consistency function of normal data, one step and several give its deviation.
    #[test]
    fn samples_have_the_deviation_of_the_data() {
        let (device, data, least) = (Device::flex(), 0.5f64, 0.002f64);
        random::seed(&device, 2);
        let exact =
            |x: Tensor<5>, sigma: f64| x * ((data * data + least * least) / (data * data + sigma * sigma)).sqrt();
        for sampler in [
            Multistep::new(vec![80.0, 10.0, 0.5], least),
            Multistep::spread(1, &NoiseLevels::default(), least),
            Multistep::spread(2, &NoiseLevels::default(), least),
        ] {
            let samples = sampler.sample(random::normal([1, 1, 20, 30, 40], &device), exact);
            let deviation = f64::from(samples.square().mean().sqrt().into_scalar::<f32>());
            assert!((deviation / data - 1.0).abs() < 0.02, "{sampler:?}: {deviation}");
        }
    }

    #[test]
    fn steps_are_spread_from_the_largest_level() {
        let times = |steps| Multistep::spread(steps, &NoiseLevels::default(), 0.002).times();
        for (steps, expected) in [(1, &[80.0][..]), (2, &[80.0, 2.515_219])] {
            let found = times(steps);
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5);
            assert!(found.len() == steps && close, "{found:?}");
        }
    }

    #[test]
    #[should_panic = "the noise levels are [80.0, 0.001], expected some, of at least 0.002"]
    fn levels_below_the_smallest_are_rejected() {
        Multistep::new(vec![80.0, 0.001], 0.002);
    }
}

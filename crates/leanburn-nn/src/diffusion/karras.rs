//! Samplers on noise levels, for denoisers.
//!
//! Karras et al., [Elucidating the Design Space of Diffusion-Based Generative Models](https://arxiv.org/abs/2206.00364), algorithms 1 and 2.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::sampler::{Network, Sampler};

/// `steps` noise levels from `sigma_max` down to `sigma_min`, denser where they are small: `(max^(1/rho) + i / (steps - 1) (min^(1/rho) -
/// max^(1/rho)))^rho`.
pub fn karras_sigmas(steps: usize, sigma_min: f64, sigma_max: f64, rho: f64) -> Vec<f64> {
    let (high, low) = (sigma_max.powf(1.0 / rho), sigma_min.powf(1.0 / rho));
    let gaps = steps.saturating_sub(1).max(1) as f64;
    let level = |step: usize| (high + step as f64 / gaps * (low - high)).powf(rho);
    (0..steps).map(level).collect()
}

/// How a step is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KarrasMethod {
    /// Along the slope at its begin.
    Euler,
    /// Along the mean of the slopes at both ends: twice the evaluations, and an error that falls with the square of the steps.
    #[default]
    Heun,
    /// Further down than the step goes, and noise back up: as random as [`Ddpm`](super::Ddpm).
    EulerAncestral,
}

/// Noise that is added before a step, and taken away with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// How much, over all steps.
    pub amount: f64,
    /// The noise levels at which some is added.
    pub range: [f64; 2],
    /// Deviation of the added noise.
    pub noise: f64,
}

/// Sampling along noise levels. What it asks of the network is the denoised volume ([`EdmPreconditioning`](super::EdmPreconditioning)), and
/// the times are noise levels.
#[derive(Clone, Debug)]
pub struct Karras {
    sigmas: Vec<f64>,
    method: KarrasMethod,
    churn: Option<Churn>,
    clamp: Option<f64>,
}

impl Karras {
    /// A sampler on these noise levels, the largest first; the last step goes to no noise.
    ///
    /// # Panics
    ///
    /// Panics unless there is a noise level, and they fall and are above 0.
    pub fn new(sigmas: Vec<f64>, method: KarrasMethod) -> Self {
        let falls = sigmas.windows(2).all(|pair| pair[0] > pair[1]) && sigmas.last().is_some_and(|last| *last > 0.0);
        assert!(falls, "Karras: the noise levels are {sigmas:?}, expected falling ones above 0");
        Self { sigmas, method, churn: None, clamp: None }
    }

    /// Sets the noise that is added before steps.
    #[must_use]
    pub fn with_churn(self, churn: Churn) -> Self {
        Self { churn: Some(churn), ..self }
    }

    /// Sets the largest absolute value of denoised volumes. Latents have none.
    #[must_use]
    pub fn with_clamp(self, clamp: f64) -> Self {
        Self { clamp: Some(clamp), ..self }
    }

    fn denoise(&self, network: &mut Network<'_>, x: &Tensor<5>, sigma: f64) -> Tensor<5> {
        let denoised = network(x.clone(), sigma);
        match self.clamp {
            Some(most) => denoised.clamp(-most, most),
            None => denoised,
        }
    }

    /// The change of the volume with the noise level.
    fn slope(&self, network: &mut Network<'_>, x: &Tensor<5>, sigma: f64) -> Tensor<5> {
        (x.clone() - self.denoise(network, x, sigma)) / sigma
    }

    /// The volume with noise added, and its noise level.
    fn churned(&self, x: Tensor<5>, sigma: f64, draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>) -> (Tensor<5>, f64) {
        let Some(Churn { amount, range: [low, high], noise }) = self.churn else { return (x, sigma) };
        if !(low..=high).contains(&sigma) {
            return (x, sigma);
        }
        let more = (amount / self.sigmas.len() as f64).min(2f64.sqrt() - 1.0);
        let raised = sigma * (more + 1.0);
        let deviation = noise * (raised * raised - sigma * sigma).sqrt();
        (x.clone() + draw(&x) * deviation, raised)
    }
}

impl Sampler for Karras {
    fn times(&self) -> Vec<f64> {
        let twice = self.method == KarrasMethod::Heun;
        let (first, rest) = (self.sigmas[0], &self.sigmas[1..]);
        [first].into_iter().chain(rest.iter().flat_map(|sigma| vec![*sigma; 1 + usize::from(twice)])).collect()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let steps = self.sigmas.iter().zip(self.sigmas[1..].iter().copied().chain([0.0]));
        steps.fold(noise * self.sigmas[0], |x, (sigma, following)| {
            if self.method == KarrasMethod::EulerAncestral {
                let [down, up] = ancestral(*sigma, following);
                let x = x.clone() + self.slope(network, &x, *sigma) * (down - sigma);
                return if up > 0.0 { x.clone() + draw(&x) * up } else { x };
            }
            let (x, sigma) = self.churned(x, *sigma, draw);
            let (slope, step) = (self.slope(network, &x, sigma), following - sigma);
            let there = x.clone() + slope.clone() * step;
            if self.method == KarrasMethod::Euler || following == 0.0 {
                return there;
            }
            x + (slope + self.slope(network, &there, following)) * (step / 2.0)
        })
    }
}

/// The noise level that an ancestral step goes down to, and the deviation of the noise that brings it back up.
fn ancestral(from: f64, to: f64) -> [f64; 2] {
    let up = (to * to * (from * from - to * to) / (from * from)).sqrt();
    [(to * to - up * up).max(0.0).sqrt(), up]
}

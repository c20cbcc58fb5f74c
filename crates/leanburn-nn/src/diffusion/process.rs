//! How noise is added, and what a network says about it.
//!
//! Ho et al., [Denoising Diffusion Probabilistic Models](https://arxiv.org/abs/2006.11239): `x_t = sqrt(a_t) x + sqrt(1 - a_t) noise`, with
//! `a_t` the product of `1 - beta` up to time t.

use burn::config::Config;
use burn::tensor::Tensor;
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use serde::{Deserialize, Serialize};

use crate::validation::Rules;

/// How much noise is added at each time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BetaSchedule {
    /// Betas on a line.
    LinearBeta {
        /// The first.
        beta_start: f64,
        /// The last.
        beta_end: f64,
    },
    /// Roots of betas on a line.
    ScaledLinearBeta {
        /// The first.
        beta_start: f64,
        /// The last.
        beta_end: f64,
    },
    /// Betas on a sigmoid.
    SigmoidBeta {
        /// What it begins at.
        beta_start: f64,
        /// What it ends at.
        beta_end: f64,
        /// The part of the sigmoid on either side of its middle.
        sig_range: f64,
    },
    /// A cosine of `a_t`; source: [Improved DDPM](https://arxiv.org/abs/2102.09672).
    Cosine {
        /// What keeps the first betas from being too small.
        s: f64,
    },
}

impl BetaSchedule {
    /// MONAI's `linear_beta`, from 0.0001 to 0.02.
    pub const LINEAR: Self = Self::LinearBeta { beta_start: 1e-4, beta_end: 2e-2 };
    /// That of the well-known latent diffusion models of volumes, from 0.0015 to 0.0195.
    pub const LATENT: Self = Self::ScaledLinearBeta { beta_start: 0.0015, beta_end: 0.0195 };
    /// MONAI's `cosine`.
    pub const COSINE: Self = Self::Cosine { s: 8e-3 };

    /// The betas of so many times, rounded to float32 as those of PyTorch are.
    fn betas(self, times: usize) -> Vec<f32> {
        let last = times.saturating_sub(1).max(1) as f64;
        let line = |start: f64, end: f64| (0..times).map(move |time| start + (end - start) * time as f64 / last);
        match self {
            Self::LinearBeta { beta_start, beta_end } => line(beta_start, beta_end).map(|beta| beta as f32).collect(),
            Self::ScaledLinearBeta { beta_start, beta_end } => {
                line(beta_start.sqrt(), beta_end.sqrt()).map(|root| (root * root) as f32).collect()
            }
            Self::SigmoidBeta { beta_start, beta_end, sig_range } => {
                let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                line(-sig_range, sig_range)
                    .map(|x| (sigmoid(x) * (beta_end - beta_start) + beta_start) as f32)
                    .collect()
            }
            Self::Cosine { s } => {
                let level = |time: usize| {
                    let share = (time as f64 / times as f64 + s) / (1.0 + s);
                    (share * std::f64::consts::FRAC_PI_2).cos().powi(2)
                };
                (0..times).map(|time| (1.0 - level(time + 1) / level(time)).clamp(0.0, 0.999) as f32).collect()
            }
        }
    }
}

/// What the output of a network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// The noise.
    #[default]
    Epsilon,
    /// The volume without noise.
    Sample,
    /// `sqrt(a_t) noise - sqrt(1 - a_t) sample`; source: [Progressive Distillation](https://arxiv.org/abs/2202.00512).
    VPrediction,
}

/// Configuration of a [`DiffusionProcess`].
#[derive(Config, Debug, PartialEq)]
pub struct DiffusionProcessConfig {
    /// Times from almost no noise to almost nothing else.
    #[config(default = 1000)]
    pub num_train_timesteps: usize,
    /// How much noise is added at each of them.
    #[config(default = "BetaSchedule::LATENT")]
    pub schedule: BetaSchedule,
    /// What the output of the network is.
    #[config(default = "Prediction::Epsilon")]
    pub prediction: Prediction,
    /// The largest absolute value that a sample can have, if it has one: latents have none.
    pub clip: Option<f64>,
}

impl DiffusionProcessConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("num_train_timesteps", self.num_train_timesteps);
        match self.schedule {
            BetaSchedule::LinearBeta { beta_start, beta_end }
            | BetaSchedule::ScaledLinearBeta { beta_start, beta_end }
            | BetaSchedule::SigmoidBeta { beta_start, beta_end, .. } => {
                for (key, beta) in [("beta_start", beta_start), ("beta_end", beta_end)] {
                    let sound = beta > 0.0 && beta < 1.0;
                    validation.check(sound, key, "a number above 0 and below 1", beta, "use 0.0015 and 0.0195");
                }
                let (expected, help) = ("at least beta_start", "exchange the two");
                let is_rising = beta_end >= beta_start || beta_end.is_nan();
                validation.check_together(is_rising, &["beta_start"], "beta_end", expected, beta_end, help);
            }
            BetaSchedule::Cosine { s } => validation.positive("s", s, "use 0.008"),
        }
        if let BetaSchedule::SigmoidBeta { sig_range, .. } = self.schedule {
            validation.positive("sig_range", sig_range, "use 6");
        }
        validation.positive("clip", self.clip.unwrap_or(1.0), "leave it out: latents have no bounds");
        validation.errors()
    }

    /// The process.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self) -> DiffusionProcess {
        panic_if_invalid("DiffusionProcess", &self.validate());
        let betas = self.schedule.betas(self.num_train_timesteps);
        let mut product = 1.0;
        let mut alpha_cumprod = |beta: &f32| {
            product *= f64::from(1.0 - beta);
            product
        };
        let alphas_cumprod = betas.iter().map(&mut alpha_cumprod).collect();
        DiffusionProcess { betas, alphas_cumprod, prediction: self.prediction, clip: self.clip }
    }
}

/// How much noise there is at each time, and what the output of a network says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffusionProcess {
    betas: Vec<f32>,
    alphas_cumprod: Vec<f64>,
    prediction: Prediction,
    clip: Option<f64>,
}

impl DiffusionProcess {
    /// Number of times.
    pub fn num_train_timesteps(&self) -> usize {
        self.alphas_cumprod.len()
    }

    /// What the output of the network is.
    pub fn prediction(&self) -> Prediction {
        self.prediction
    }

    /// The share of the sample's variance at a time.
    ///
    /// # Panics
    ///
    /// Panics if there is no such time.
    pub fn alpha_cumprod(&self, time: usize) -> f64 {
        self.alphas_cumprod[time]
    }

    /// The share of the variance that noise gets at a time.
    pub(super) fn beta(&self, time: usize) -> f64 {
        f64::from(self.betas[time])
    }

    /// Samples with noise, each at its own time: `sqrt(a_t) sample + sqrt(1 - a_t) noise`.
    ///
    /// # Shapes
    ///
    /// - sample, noise and output: `[batch_size, channels, depth, height, width]`
    /// - times: `[batch_size]`, whole numbers below `num_train_timesteps`
    pub fn add_noise(&self, sample: Tensor<5>, noise: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        let [of_sample, of_noise] = self.shares(times);
        sample * of_sample + noise * of_noise
    }

    /// Samples with noise, each at its own [level](Self::levels_between): `level sample + sqrt(1 - level^2) noise`. Shapes as
    /// [`add_noise`](Self::add_noise), levels `[batch_size]`.
    pub fn add_noise_at(sample: Tensor<5>, noise: Tensor<5>, levels: Tensor<1>) -> Tensor<5> {
        let [of_sample, of_noise] = shares_at(levels);
        sample * of_sample + noise * of_noise
    }

    /// What the network should give for samples with noise [of a level](Self::add_noise_at). Shapes as there.
    pub fn target_at(&self, sample: Tensor<5>, noise: Tensor<5>, levels: Tensor<1>) -> Tensor<5> {
        let [of_sample, of_noise] = shares_at(levels);
        match self.prediction {
            Prediction::Epsilon => noise,
            Prediction::Sample => sample,
            Prediction::VPrediction => noise * of_sample - sample * of_noise,
        }
    }

    /// What a network that predicts velocities should give: `sqrt(a_t) noise - sqrt(1 - a_t) sample`. Shapes as [`add_noise`](Self::add_noise).
    pub fn velocity(&self, sample: Tensor<5>, noise: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        let [of_sample, of_noise] = self.shares(times);
        noise * of_sample - sample * of_noise
    }

    /// What the network should give for [noisy](Self::add_noise) samples. Shapes as [`add_noise`](Self::add_noise).
    pub fn target(&self, sample: Tensor<5>, noise: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        match self.prediction {
            Prediction::Epsilon => noise,
            Prediction::Sample => sample,
            Prediction::VPrediction => self.velocity(sample, noise, times),
        }
    }

    /// Noise levels between those of times and of the times before them, as roots of the samples' shares of the variance: from
    /// `sqrt(a_t)` up to `sqrt(a_(t-1))`, which of the first time is 1.
    ///
    /// So a network is trained at any level, and can be asked in steps of any length. Source: [WaveGrad](https://arxiv.org/abs/2009.00713).
    ///
    /// # Shapes
    ///
    /// - times: `[batch_size]`, whole numbers below `num_train_timesteps`
    /// - parts: `[batch_size]`, from 0 (the time's own level) to 1 (that before)
    /// - output: `[batch_size]`
    pub fn levels_between(&self, times: Tensor<1>, parts: Tensor<1>) -> Tensor<1> {
        let levels: Vec<f32> =
            std::iter::once(1.0).chain(self.alphas_cumprod.iter().map(|alpha| alpha.sqrt() as f32)).collect();
        let levels = Tensor::<1>::from_floats(levels.as_slice(), &times.device());
        let before = times.int();
        let own = levels.clone().select(0, before.clone() + 1);
        own.clone() + (levels.select(0, before) - own) * parts
    }

    /// Roots of `a_t` and `1 - a_t` for each item.
    fn shares(&self, times: Tensor<1>) -> [Tensor<5>; 2] {
        let (device, times) = (times.device(), times.int());
        let table = |share: fn(f64) -> f64| {
            let values: Vec<f32> = self.alphas_cumprod.iter().map(|alpha| share(*alpha).sqrt() as f32).collect();
            Tensor::<1>::from_floats(values.as_slice(), &device)
        };
        [table(|alpha| alpha), table(|alpha| 1.0 - alpha)]
            .map(|table| table.select(0, times.clone()).reshape([-1, 1, 1, 1, 1]))
    }

    /// Sample and noise according to the output of a network for `x` at a time; the sample clipped, and the noise not adjusted to that.
    pub(super) fn split(&self, output: Tensor<5>, x: &Tensor<5>, time: usize) -> (Tensor<5>, Tensor<5>) {
        let (signal, deviation) = (self.alphas_cumprod[time].sqrt(), (1.0 - self.alphas_cumprod[time]).sqrt());
        let x = x.clone();
        let (sample, noise) = match self.prediction {
            Prediction::Epsilon => ((x - output.clone() * deviation) / signal, output),
            Prediction::Sample => (output.clone(), (x - output * signal) / deviation),
            Prediction::VPrediction => {
                (x.clone() * signal - output.clone() * deviation, output * signal + x * deviation)
            }
        };
        let sample = match self.clip {
            Some(most) => sample.clamp(-most, most),
            None => sample,
        };
        (sample, noise)
    }

    /// The same, with the noise that belongs to the clipped sample.
    pub(super) fn consistent_split(&self, output: Tensor<5>, x: &Tensor<5>, time: usize) -> (Tensor<5>, Tensor<5>) {
        let (sample, noise) = self.split(output, x, time);
        if self.clip.is_none() {
            return (sample, noise);
        }
        let (signal, deviation) = (self.alphas_cumprod[time].sqrt(), (1.0 - self.alphas_cumprod[time]).sqrt());
        let noise = (x.clone() - sample.clone() * signal) / deviation;
        (sample, noise)
    }
}

/// Shares of samples and of noise at levels.
fn shares_at(levels: Tensor<1>) -> [Tensor<5>; 2] {
    let of_sample: Tensor<5> = levels.reshape([-1, 1, 1, 1, 1]);
    let of_noise = (of_sample.clone().square() * -1.0 + 1.0).clamp_min(0.0).sqrt();
    [of_sample, of_noise]
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::validation::keys;

    #[test]
    fn what_a_network_should_give_at_a_level_says_sample_and_noise() {
        let device = Device::flex();
        for prediction in [Prediction::Epsilon, Prediction::Sample, Prediction::VPrediction] {
            let process = DiffusionProcessConfig::new().with_prediction(prediction).init();
            for time in [0, 300, 800] {
                let of = |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([2, 1, 1, 1, 2]);
                let (sample, noise) = (of([0.5, -1.0, 2.0, 0.0]), of([-0.25, 0.75, 1.0, -1.5]));
                let levels = Tensor::full([2], process.alpha_cumprod(time).sqrt(), &device);
                let noisy = DiffusionProcess::add_noise_at(sample.clone(), noise.clone(), levels.clone());
                let target = process.target_at(sample.clone(), noise.clone(), levels);
                let (found, of_noise) = process.split(target, &noisy, time);
                for (found, truth) in [(found, sample), (of_noise, noise)] {
                    let apart = (found - truth).abs().max().into_scalar::<f32>();
                    assert!(apart < 1e-4, "{prediction:?} at {time}: {apart}");
                }
            }
        }
    }

    #[test]
    fn levels_lie_between_those_of_neighbouring_times() {
        let device = Device::flex();
        let process = DiffusionProcessConfig::new().with_num_train_timesteps(4).init();
        let numbers = |values: [f32; 3]| Tensor::<1>::from_floats(values, &device);
        let levels = |parts| process.levels_between(numbers([0.0, 1.0, 3.0]), numbers([parts; 3]));
        let own = [0, 1, 3].map(|time| process.alpha_cumprod(time).sqrt() as f32);
        let before = [1.0, own[0], process.alpha_cumprod(2).sqrt() as f32];
        for (parts, expected) in [(0.0, own), (1.0, before), (0.5, [0, 1, 2].map(|at| (own[at] + before[at]) / 2.0))] {
            let apart = (levels(parts) - numbers(expected)).abs().max().into_scalar::<f32>();
            assert!(apart < 1e-6, "{parts}: {apart}");
        }
        // At a time's own level the noise is that of the time.
        let volume = |value| Tensor::<5>::full([3, 1, 1, 1, 2], value, &device);
        let at_times = process.add_noise(volume(2.0), volume(-1.0), numbers([0.0, 1.0, 3.0]));
        let at_levels = DiffusionProcess::add_noise_at(volume(2.0), volume(-1.0), levels(0.0));
        assert!((at_times - at_levels).abs().max().into_scalar::<f32>() < 1e-4);
    }

    #[test]
    fn each_error_is_found() {
        let fields = |schedule| keys(DiffusionProcessConfig::new().with_schedule(schedule).validate());
        assert!(DiffusionProcessConfig::new().validate().is_empty());
        assert_eq!(fields(BetaSchedule::LinearBeta { beta_start: 0.0, beta_end: 0.1 }), ["beta_start"]);
        assert_eq!(fields(BetaSchedule::ScaledLinearBeta { beta_start: 0.1, beta_end: 1.0 }), ["beta_end"]);
        assert_eq!(fields(BetaSchedule::LinearBeta { beta_start: 0.2, beta_end: 0.1 }), ["beta_end"]);
        let sigmoid = BetaSchedule::SigmoidBeta { beta_start: 0.1, beta_end: 0.2, sig_range: 0.0 };
        assert_eq!(fields(sigmoid), ["sig_range"]);
        assert_eq!(fields(BetaSchedule::Cosine { s: -1.0 }), ["s"]);
        let config = DiffusionProcessConfig::new().with_num_train_timesteps(0).with_clip(Some(0.0));
        assert_eq!(keys(config.validate()), ["num_train_timesteps", "clip"]);
    }
}

//! Noise in training and in sampling, as a scheduler has it.

use burn::tensor::{Device, Tensor};
use leanburn_nn::consistency::Multistep;
use leanburn_nn::diffusion::{
    Ddim, Ddpm, DiffusionProcess, EdmPreconditioning, Karras, KarrasMethod, Pndm, RectifiedFlow, Sampler,
    TimeTransform, karras_sigmas,
};
use leanburn_nn::models::{DiffusionConditions, DiffusionUNet3d};
use leanburn_nn::numerics::widen;
use leanburn_ops::random;
use leanburn_train::Precision;

use super::consistency_section::ConsistencySection;
use super::scheduler::{EdmSection, RflowSection, SamplingMethod, SchedulerSection};

/// How noise is added to latents, and what a network is to say of it.
#[derive(Debug, Clone)]
pub(super) enum Noise {
    Process(DiffusionProcess),
    Flow(RflowSection),
    Levels(EdmSection, EdmPreconditioning),
}

/// What a network is given in training, and what it should give.
pub(super) struct Noisy {
    /// Latents with noise, `[batch_size, channels, depth, height, width]`.
    pub input: Tensor<5>,
    /// What the network is told of the noise, `[batch_size]`.
    pub times: Tensor<1>,
    /// What it should give, in the shape of the input.
    pub target: Tensor<5>,
}

/// How much of a latent, and how much of its noise, there is at one level of noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// In what a network is given.
    pub input: [f64; 2],
    /// In what it should give.
    pub target: [f64; 2],
}

impl Noise {
    /// That of a valid scheduler, for a consistency model if it is one.
    pub fn of(scheduler: &SchedulerSection, consistency: Option<&ConsistencySection>) -> Self {
        match scheduler {
            SchedulerSection::Ddpm(ddpm) => Self::Process(ddpm.process().init()),
            SchedulerSection::Rflow(flow) => Self::Flow(flow.clone()),
            SchedulerSection::Edm(edm) => {
                let diffusion = EdmPreconditioning::diffusion(edm.sigma_data);
                Self::Levels(edm.clone(), consistency.map_or(diffusion, |section| section.preconditioning(edm)))
            }
        }
    }

    /// How noisy the items of a batch are in training, `[batch_size]`, drawn at random: times, or noise levels.
    pub fn draw(&self, shape: [usize; 5], device: &Device) -> Tensor<1> {
        let [batch_size, _, extent @ ..] = shape;
        match self {
            Self::Process(process) => {
                let times = process.num_train_timesteps() as f64;
                (random::uniform([batch_size], device) * times).floor().clamp_max(times - 1.0)
            }
            Self::Flow(flow) => lines(flow, 1, extent).training_times(flow.distribution(), batch_size, device),
            Self::Levels(edm, _) => (random::normal([batch_size], device) * edm.p_std + edm.p_mean).exp(),
        }
    }

    /// The time or noise level of which a share, from 0 to 1, of all are less noisy. Noise levels are a sampler's: training draws some of them
    /// more often than others.
    pub fn at(&self, share: f64) -> f64 {
        match self {
            Self::Process(process) => (share * (process.num_train_timesteps() - 1) as f64).round(),
            Self::Flow(flow) => {
                let time = share * flow.num_train_timesteps as f64;
                if flow.use_discrete_timesteps { time.round() } else { time }
            }
            Self::Levels(edm, _) => edm.levels().at(share),
        }
    }

    /// What the network is given and should give for latents, standard normal noise of their shape, and how much of it there is.
    pub fn add(&self, latents: Tensor<5>, noise: Tensor<5>, level: Tensor<1>) -> Noisy {
        match self {
            Self::Process(process) => {
                let input = process.add_noise(latents.clone(), noise.clone(), level.clone());
                let target = process.target(latents, noise, level.clone());
                Noisy { input, times: level, target }
            }
            Self::Flow(flow) => {
                let flow = RectifiedFlow::new(flow.num_train_timesteps, 1);
                let input = flow.add_noise(latents.clone(), noise.clone(), level.clone());
                Noisy { input, times: level, target: latents - noise }
            }
            Self::Levels(_, denoiser) => {
                let [skip, out, scale] = denoiser.coefficients(level.clone()).map(per_item);
                let noisy = latents.clone() + noise * per_item(level.clone());
                let target = (latents - noisy.clone() * skip) / out;
                Noisy { input: noisy * scale, times: denoiser.time(level), target }
            }
        }
    }

    /// The parts of latents and noise at a time or noise level: what `add` gives is linear in both.
    pub fn parts(&self, level: f64, device: &Device) -> Parts {
        let number = |value: f64| Tensor::<5>::full([1; 5], value, device);
        let of = |latent: f64, noise: f64| {
            let Noisy { input, target, .. } = self.add(number(latent), number(noise), Tensor::full([1], level, device));
            [input, target].map(|part| f64::from(part.into_scalar::<f32>()))
        };
        let (latent, noise) = (of(1.0, 0.0), of(0.0, 1.0));
        Parts { input: [latent[0], noise[0]], target: [latent[1], noise[1]] }
    }

    /// What a sampler is told of a noisy latent at a time or noise level; `network` is given latents and what it was told in training.
    pub fn ask(
        &self,
        latents: Tensor<5>,
        level: f64,
        network: impl FnOnce(Tensor<5>, Tensor<1>) -> Tensor<5>,
    ) -> Tensor<5> {
        let times = Tensor::full([latents.dims()[0]], level, &latents.device());
        match self {
            Self::Levels(_, denoiser) => denoiser.denoise(latents, times, network),
            _ => network(latents, times),
        }
    }

    /// A sampler by one of the scheduler's methods, in steps that it can take, of latents of an extent.
    pub fn sampler(&self, method: SamplingMethod, steps: usize, extent: [usize; 3]) -> Box<dyn Sampler> {
        match self {
            Self::Process(process) => match method {
                SamplingMethod::Ddpm => Box::new(Ddpm::new(process.clone(), steps)),
                SamplingMethod::Pndm => Box::new(Pndm::new(process.clone(), steps)),
                _ => Box::new(Ddim::new(process.clone(), steps)),
            },
            Self::Flow(flow) => Box::new(lines(flow, steps, extent)),
            Self::Levels(edm, denoiser) => {
                let method = match method {
                    SamplingMethod::Multistep => {
                        return Box::new(Multistep::spread(steps, &edm.levels(), denoiser.boundary));
                    }
                    SamplingMethod::Euler => KarrasMethod::Euler,
                    SamplingMethod::EulerAncestral => KarrasMethod::EulerAncestral,
                    _ => KarrasMethod::Heun,
                };
                Box::new(Karras::new(karras_sigmas(steps, edm.sigma_min, edm.sigma_max, edm.rho), method))
            }
        }
    }
}

/// What a network is asked about: noisy latents, the times of their noise, and the numbers of their classes if it knows classes.
pub(super) type Question = (Tensor<5>, Tensor<1>, Option<Tensor<1>>);

/// What a network gives, in f32.
pub(super) fn predict(unet: &DiffusionUNet3d, precision: Precision, (input, times, classes): Question) -> Tensor<5> {
    let class_labels = classes.map(|classes| classes.int());
    let conditions = DiffusionConditions { class_labels, ..DiffusionConditions::default() };
    widen(unet.forward(precision.cast(input), times, conditions))
}

/// Straight lines in a number of steps, for latents of an extent.
fn lines(flow: &RflowSection, steps: usize, extent: [usize; 3]) -> RectifiedFlow {
    let lines =
        RectifiedFlow::new(flow.num_train_timesteps, steps).with_use_discrete_timesteps(flow.use_discrete_timesteps);
    let transform = TimeTransform { base_img_size_numel: flow.base_img_size_numel, ..TimeTransform::default() };
    match flow.use_timestep_transform {
        true => lines.with_transform(transform, extent.iter().product()),
        false => lines,
    }
}

/// A number for each item, to be broadcast over latents.
fn per_item(values: Tensor<1>) -> Tensor<5> {
    values.reshape([-1, 1, 1, 1, 1])
}

#[cfg(test)]
pub(super) mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::diffusion::{DdpmSection, EdmSection, RflowSection};

    /// One of each kind.
    pub(in super::super) fn schedulers() -> [SchedulerSection; 3] {
        [
            SchedulerSection::Ddpm(DdpmSection::default()),
            SchedulerSection::Rflow(RflowSection::default()),
            SchedulerSection::Edm(EdmSection::default()),
        ]
    }

    /// A network that gives its target exactly lets every sampler find the latent that the noise was added to.
    #[test]
    fn training_and_sampling_mean_the_same() {
        let device = Device::flex();
        let shape = [1, 2, 3, 4, 5];
        let latent = random::drawn(7, random::Distribution::STANDARD, shape, &device);
        for scheduler in schedulers() {
            let noise = Noise::of(&scheduler, None);
            for method in scheduler.methods() {
                let mut network = |x: Tensor<5>, level: f64| {
                    noise.ask(x, level, |input, times| {
                        // of this input at this time, the noise must be what brings the latent there
                        let level = Tensor::full([1], level, &device);
                        let one = noise.add(latent.clone(), Tensor::zeros(shape, &device), level.clone());
                        let two = noise.add(latent.clone(), Tensor::ones(shape, &device), level.clone());
                        assert!((two.times.clone() - times).abs().max().into_scalar::<f32>() < 1e-3);
                        let of_noise = (input - one.input.clone()) / (two.input - one.input);
                        noise.add(latent.clone(), of_noise, level).target
                    })
                };
                let start = random::drawn(8, random::Distribution::STANDARD, shape, &device);
                let sampler = noise.sampler(*method, 20, [3, 4, 5]);
                let mut draw =
                    |like: &Tensor<5>| random::drawn(9, random::Distribution::STANDARD, like.dims(), &device);
                let sample = sampler.sample_with(start, &mut network, &mut draw);
                let error = (sample - latent.clone()).abs().max().into_scalar::<f32>();
                // the last time of PNDM has some noise left
                let most = if *method == SamplingMethod::Pndm { 0.2 } else { 1e-2 };
                assert!(error < most, "{method}: {error}");
            }
        }
    }

    #[test]
    fn levels_rise_with_their_share_and_are_those_of_training() {
        let device = Device::flex();
        for scheduler in schedulers() {
            let noise = Noise::of(&scheduler, None);
            let levels = [0.0, 0.3, 0.6, 1.0].map(|share| noise.at(share));
            assert!(levels.is_sorted_by(|low, high| low < high), "{levels:?}");
            random::seed(&device, 3);
            let drawn = noise.draw([64, 1, 2, 2, 2], &device);
            let (low, high) = (drawn.clone().min().into_scalar::<f32>(), drawn.max().into_scalar::<f32>());
            assert!(low >= 0.0 && f64::from(high) <= levels[3], "{low} {high}");
        }
    }
}

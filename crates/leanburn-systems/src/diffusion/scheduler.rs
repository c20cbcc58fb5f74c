//! The `diffusion.scheduler` section: how noise is added in training, and by which samplers it is taken away again.

use std::fmt;

use leanburn_common::{Validation, ValidationError};
use leanburn_nn::consistency::NoiseLevels;
use leanburn_nn::diffusion::{BetaSchedule, DiffusionProcessConfig, Prediction, TimeDistribution, TimeTransform};
use serde::{Deserialize, Serialize};

use crate::shared::of_section;
use crate::yaml::{MANY, POSITIVE, Section};

/// How noise is added; keys are those of MONAI's schedulers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchedulerSection {
    /// At whole times, by a schedule of betas.
    Ddpm(DdpmSection),
    /// Along straight lines: rectified flow.
    Rflow(RflowSection),
    /// At any noise level, for a denoiser.
    Edm(EdmSection),
}

/// The names of the schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Ddpm,
    Rflow,
    Edm,
}

/// Noise at whole times ([Ho et al.](https://arxiv.org/abs/2006.11239)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DdpmSection {
    /// Times. Default: 1000.
    pub num_train_timesteps: usize,
    /// How betas grow. Default: scaled_linear_beta.
    pub schedule: Betas,
    /// The first beta. Default: 0.0015.
    pub beta_start: f64,
    /// The last beta. Default: 0.0195.
    pub beta_end: f64,
    /// What the network gives: epsilon (the noise), sample or v_prediction. Default: epsilon.
    pub prediction_type: Prediction,
}

/// How betas grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Betas {
    /// On a line.
    LinearBeta,
    /// Their roots on a line.
    ScaledLinearBeta,
    /// On a sigmoid.
    SigmoidBeta,
    /// By a cosine, which has no first and last beta.
    Cosine,
}

/// Straight lines from sample to noise ([Liu et al.](https://arxiv.org/abs/2209.03003)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RflowSection {
    /// Times. Default: 1000.
    pub num_train_timesteps: usize,
    /// Whether times are whole numbers. Default: true.
    pub use_discrete_timesteps: bool,
    /// Which times are trained: uniform or logit-normal. Default: uniform.
    pub sample_method: TimeSampling,
    /// Mean of the logit-normal distribution. Default: 0.
    pub loc: f64,
    /// Its deviation. Default: 1.
    pub scale: f64,
    /// Whether large latents get more time where there is much noise. Default: false.
    pub use_timestep_transform: bool,
    /// Places of a latent whose times are not changed by that. Default: 32768.
    pub base_img_size_numel: usize,
}

/// Which times are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeSampling {
    /// Any alike.
    Uniform,
    /// Those in the middle more often.
    LogitNormal,
}

/// Noise levels of a denoiser ([Karras et al.](https://arxiv.org/abs/2206.00364)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EdmSection {
    /// The smallest noise level of sampling. Default: 0.002.
    pub sigma_min: f64,
    /// The largest. Default: 80.
    pub sigma_max: f64,
    /// Deviation of the latents. Default: 1, which `latents` brings them to.
    pub sigma_data: f64,
    /// How much denser small noise levels of sampling are. Default: 7.
    pub rho: f64,
    /// Mean of the logarithm of the noise levels of training. Default: -1.2.
    pub p_mean: f64,
    /// Its deviation. Default: 1.2.
    pub p_std: f64,
}

/// How latents are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingMethod {
    /// Random steps, as many as the model has times for the best samples.
    Ddpm,
    /// Fewer steps, without noise in between.
    Ddim,
    /// Fewer steps still, of fourth order.
    Pndm,
    /// Along straight lines.
    Rflow,
    /// Along the slope at the begin of each step.
    Euler,
    /// Along the mean of the slopes at both ends of each step.
    Heun,
    /// Random steps between noise levels.
    EulerAncestral,
    /// Denoised at once, and again from each of the lower noise levels: a consistency model.
    Multistep,
}

impl fmt::Display for SamplingMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ddpm => "ddpm",
            Self::Ddim => "ddim",
            Self::Pndm => "pndm",
            Self::Rflow => "rflow",
            Self::Euler => "euler",
            Self::Heun => "heun",
            Self::EulerAncestral => "euler_ancestral",
            Self::Multistep => "multistep",
        })
    }
}

impl Default for SchedulerSection {
    fn default() -> Self {
        Self::Ddpm(DdpmSection::default())
    }
}

impl Default for DdpmSection {
    fn default() -> Self {
        Self {
            num_train_timesteps: 1000,
            schedule: Betas::ScaledLinearBeta,
            beta_start: 0.0015,
            beta_end: 0.0195,
            prediction_type: Prediction::Epsilon,
        }
    }
}

impl Default for RflowSection {
    fn default() -> Self {
        Self {
            num_train_timesteps: 1000,
            use_discrete_timesteps: true,
            sample_method: TimeSampling::Uniform,
            loc: 0.0,
            scale: 1.0,
            use_timestep_transform: false,
            base_img_size_numel: TimeTransform::default().base_img_size_numel,
        }
    }
}

impl Default for EdmSection {
    fn default() -> Self {
        Self { sigma_min: 0.002, sigma_max: 80.0, sigma_data: 1.0, rho: 7.0, p_mean: -1.2, p_std: 1.2 }
    }
}

impl SchedulerSection {
    /// Reads the section of a model, of a consistency model if it is one.
    pub(super) fn read(section: &mut Section<'_>, is_consistent: bool) -> Self {
        match section.choice("name", if is_consistent { Name::Edm } else { Name::Ddpm }) {
            Name::Ddpm => {
                section.reject_if(
                    "clip_sample",
                    true,
                    "false: latents are not between -1 and 1",
                    "remove `clip_sample`",
                );
                Self::Ddpm(DdpmSection::read_from(section, DdpmSection::default()))
            }
            Name::Rflow => Self::Rflow(RflowSection::read(section)),
            Name::Edm => Self::Edm(EdmSection::read(section)),
        }
    }

    /// The ways to sample of a model that was trained so, the one that is taken where none is named first.
    pub fn methods(&self) -> &'static [SamplingMethod] {
        match self {
            Self::Ddpm(_) => &[SamplingMethod::Ddim, SamplingMethod::Pndm, SamplingMethod::Ddpm],
            Self::Rflow(_) => &[SamplingMethod::Rflow],
            Self::Edm(_) => &[SamplingMethod::Heun, SamplingMethod::Euler, SamplingMethod::EulerAncestral],
        }
    }

    /// The most steps that make sense, if there is such a number: the times that the model is trained at.
    pub fn most_steps(&self) -> Option<usize> {
        match self {
            Self::Ddpm(ddpm) => Some(ddpm.num_train_timesteps),
            Self::Rflow(flow) => Some(flow.num_train_timesteps),
            Self::Edm(_) => None,
        }
    }

    pub(super) fn validate(&self, path: &str) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        match self {
            Self::Ddpm(ddpm) => return of_section(ddpm.process().validate(), path, &[]),
            Self::Rflow(flow) => {
                let times = flow.num_train_timesteps;
                validation.check(times > 0, "num_train_timesteps", "at least 1", times, "use 1000");
                let places = flow.base_img_size_numel;
                validation.check(places > 0, "base_img_size_numel", "at least 1", places, "use 32768");
                validation.check(flow.scale > 0.0, "scale", "a number above 0", flow.scale, "use 1");
            }
            Self::Edm(edm) => {
                let (low, high) = (edm.sigma_min, edm.sigma_max);
                let is_sound = 0.0 < low && low < high && high.is_finite();
                let expected = "above 0, and less than `sigma_max`";
                validation.check(is_sound, "sigma_min", expected, low, "use 0.002 and 80");
                for (key, value) in [("sigma_data", edm.sigma_data), ("rho", edm.rho), ("p_std", edm.p_std)] {
                    validation.check(value > 0.0, key, "a number above 0", value, "leave it out");
                }
            }
        }
        of_section(validation.errors(), path, &[])
    }
}

impl DdpmSection {
    /// Reads the keys, with other defaults.
    pub(crate) fn read_from(section: &mut Section<'_>, default: Self) -> Self {
        let schedule = section.choice("schedule", default.schedule);
        Self {
            num_train_timesteps: section.number("num_train_timesteps", default.num_train_timesteps, 1..=MANY),
            schedule,
            beta_start: section.number("beta_start", default.beta_start, POSITIVE),
            beta_end: section.number("beta_end", default.beta_end, POSITIVE),
            prediction_type: section.choice("prediction_type", default.prediction_type),
        }
    }

    /// How noise is added at each time.
    pub fn process(&self) -> DiffusionProcessConfig {
        let Self { beta_start, beta_end, .. } = *self;
        let schedule = match self.schedule {
            Betas::LinearBeta => BetaSchedule::LinearBeta { beta_start, beta_end },
            Betas::ScaledLinearBeta => BetaSchedule::ScaledLinearBeta { beta_start, beta_end },
            Betas::SigmoidBeta => BetaSchedule::SigmoidBeta { beta_start, beta_end, sig_range: 6.0 },
            Betas::Cosine => BetaSchedule::COSINE,
        };
        DiffusionProcessConfig::new()
            .with_num_train_timesteps(self.num_train_timesteps)
            .with_schedule(schedule)
            .with_prediction(self.prediction_type)
    }
}

impl RflowSection {
    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            num_train_timesteps: section.number("num_train_timesteps", default.num_train_timesteps, 1..=MANY),
            use_discrete_timesteps: section.get("use_discrete_timesteps", default.use_discrete_timesteps),
            sample_method: section.choice("sample_method", default.sample_method),
            loc: section.get("loc", default.loc),
            scale: section.number("scale", default.scale, POSITIVE),
            use_timestep_transform: section.get("use_timestep_transform", default.use_timestep_transform),
            base_img_size_numel: section.number("base_img_size_numel", default.base_img_size_numel, 1..),
        }
    }

    /// Which times are trained.
    pub fn distribution(&self) -> TimeDistribution {
        match self.sample_method {
            TimeSampling::Uniform => TimeDistribution::Uniform,
            TimeSampling::LogitNormal => TimeDistribution::LogitNormal { loc: self.loc, scale: self.scale },
        }
    }
}

impl EdmSection {
    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            sigma_min: section.number("sigma_min", default.sigma_min, POSITIVE),
            sigma_max: section.number("sigma_max", default.sigma_max, POSITIVE),
            sigma_data: section.number("sigma_data", default.sigma_data, POSITIVE),
            rho: section.number("rho", default.rho, POSITIVE),
            p_mean: section.get("p_mean", default.p_mean),
            p_std: section.number("p_std", default.p_std, POSITIVE),
        }
    }

    /// The noise levels of sampling.
    pub(super) fn levels(&self) -> NoiseLevels {
        NoiseLevels { sigma_min: self.sigma_min, sigma_max: self.sigma_max, rho: self.rho }
    }
}

//! The `diffusion.consistency` section: a model that makes samples in one step or a few.

use std::path::PathBuf;

use leanburn_common::{Validation, ValidationError};
use leanburn_nn::consistency::{Curriculum, Distance, TargetEma, Weighting};
use leanburn_nn::diffusion::EdmPreconditioning;
use serde::{Deserialize, Serialize};

use super::scheduler::EdmSection;
use crate::shared::with_methods;
use crate::yaml::{MANY, POSITIVE, Section};

/// How a consistency model is trained; keys are those of the well-known code of [Song et al.](https://arxiv.org/abs/2303.01469).
///
/// A value that is not written follows from `training_mode`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConsistencySection {
    /// What is compared with what. Default: consistency_distillation where there is a teacher, else easy_consistency_tuning.
    pub training_mode: TrainingMode,
    /// A trained diffusion model with the same network and the scheduler `edm`: its run, or its weights with the `config.yaml` of the run in the
    /// same folder. Training starts from its weights. Required for distillation, which asks it in every step.
    pub teacher: Option<PathBuf>,
    /// How the target follows the model. Default: by `training_mode`.
    pub target_ema_mode: TargetEmaMode,
    /// The share of the target that stays after a step (fixed), or after the first (adaptive). Default: 0.95.
    pub start_ema: f64,
    /// How the number of noise levels grows. Default: by `training_mode`.
    pub scale_mode: ScaleMode,
    /// Noise levels, or gaps between them at the begin where the number grows. Default: by `training_mode`.
    pub start_scales: usize,
    /// Gaps between noise levels at the end. Default: by `training_mode`.
    pub end_scales: usize,
    /// The distance of two samples. Default: by `training_mode`.
    pub loss_norm: LossNorm,
    /// The constant of `pseudo_huber` and `cauchy`, in roots of the values of a latent. Default: by `loss_norm`.
    pub loss_constant: f64,
    /// How much a noise level counts. Default: by `training_mode`.
    pub weight_schedule: WeightSchedule,
    /// Mean of the logarithm of the noise levels, where they are drawn log-normally. Default: -1.1.
    pub p_mean: f64,
    /// Its deviation. Default: 2.
    pub p_std: f64,
    /// By what easy tuning divides the gap between two levels with each stage. Default: 4.
    pub q: f64,
    /// Stages of easy tuning, of equal length. Default: 8.
    pub stages: usize,
}

/// What is compared with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainingMode {
    /// A noisy latent with what a step of the teacher makes of it ([Song et al.](https://arxiv.org/abs/2303.01469)).
    ConsistencyDistillation,
    /// A noisy latent with the same latent and less of the same noise (the same).
    ConsistencyTraining,
    /// The same without a target of its own ([Song and Dhariwal](https://arxiv.org/abs/2310.14189)).
    ImprovedConsistencyTraining,
    /// The same from diffusion training on, with gaps that close ([Geng et al.](https://arxiv.org/abs/2406.14548)).
    EasyConsistencyTuning,
}

/// How the target follows the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetEmaMode {
    /// It is the model.
    None,
    /// An average with one decay.
    Fixed,
    /// An average with a decay that grows with the number of noise levels.
    Adaptive,
}

/// How the number of noise levels grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleMode {
    /// Not at all.
    Fixed,
    /// Its square grows evenly.
    Progressive,
    /// It doubles after equal parts of the training.
    Doubling,
}

/// The distance of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossNorm {
    /// The mean of absolute differences.
    L1,
    /// The mean of squares.
    L2,
    /// Quadratic for small differences, linear for large ones.
    PseudoHuber,
    /// Logarithmic for large ones, which latents have ([Dao et al.](https://arxiv.org/abs/2502.01441)).
    Cauchy,
}

impl LossNorm {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::PseudoHuber => "pseudo_huber",
            Self::Cauchy => "cauchy",
        }
    }
}

/// How much a noise level counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightSchedule {
    /// All alike.
    #[serde(rename = "uniform")]
    Uniform,
    /// `1 / sigma^2`.
    #[serde(rename = "snr")]
    Snr,
    /// `1 / sigma^2 + 1`.
    #[serde(rename = "snr+1")]
    SnrPlusOne,
    /// `1 / sigma^2 + 1 / sigma_data^2`.
    #[serde(rename = "karras")]
    Karras,
    /// `1 / sigma^2`, at least 1.
    #[serde(rename = "truncated-snr")]
    TruncatedSnr,
    /// One divided by the gap to the lower level.
    #[serde(rename = "inverse-gap")]
    InverseGap,
}

with_methods! { ConsistencySection {
    with_teacher => teacher: Option<PathBuf>,
    with_target_ema_mode => target_ema_mode: TargetEmaMode,
    with_start_ema => start_ema: f64,
    with_scale_mode => scale_mode: ScaleMode,
    with_start_scales => start_scales: usize,
    with_end_scales => end_scales: usize,
    with_loss_norm => loss_norm: LossNorm,
    with_loss_constant => loss_constant: f64,
    with_weight_schedule => weight_schedule: WeightSchedule,
    with_q => q: f64,
    with_stages => stages: usize,
} }

impl ConsistencySection {
    /// Training of a mode as its paper has it.
    pub fn new(training_mode: TrainingMode) -> Self {
        use TrainingMode::{
            ConsistencyDistillation, ConsistencyTraining, EasyConsistencyTuning, ImprovedConsistencyTraining,
        };
        let (target_ema_mode, scale_mode, [start_scales, end_scales]) = match training_mode {
            ConsistencyDistillation => (TargetEmaMode::Fixed, ScaleMode::Fixed, [40, 40]),
            ConsistencyTraining => (TargetEmaMode::Adaptive, ScaleMode::Progressive, [2, 200]),
            ImprovedConsistencyTraining | EasyConsistencyTuning => {
                (TargetEmaMode::None, ScaleMode::Doubling, [10, 1280])
            }
        };
        let (loss_norm, loss_constant, weight_schedule) = match training_mode {
            ConsistencyDistillation | ConsistencyTraining => (LossNorm::L2, 0.0, WeightSchedule::Uniform),
            ImprovedConsistencyTraining => (LossNorm::PseudoHuber, PSEUDO_HUBER, WeightSchedule::InverseGap),
            EasyConsistencyTuning => (LossNorm::PseudoHuber, 0.0, WeightSchedule::Karras),
        };
        Self {
            training_mode,
            teacher: None,
            target_ema_mode,
            start_ema: 0.95,
            scale_mode,
            start_scales,
            end_scales,
            loss_norm,
            loss_constant,
            weight_schedule,
            p_mean: -1.1,
            p_std: 2.0,
            q: 4.0,
            stages: 8,
        }
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        section.alias("teacher_model_path", "teacher");
        let teacher = section.get("teacher", None::<PathBuf>).filter(|path| !path.as_os_str().is_empty());
        let mode = match &teacher {
            Some(_) => TrainingMode::ConsistencyDistillation,
            None => TrainingMode::EasyConsistencyTuning,
        };
        let mode = section.choice("training_mode", mode);
        let default = Self::new(mode);
        let loss_norm = section.choice("loss_norm", default.loss_norm);
        let loss_constant = match loss_norm {
            _ if loss_norm == default.loss_norm => default.loss_constant,
            LossNorm::PseudoHuber => PSEUDO_HUBER,
            LossNorm::Cauchy => CAUCHY,
            LossNorm::L1 | LossNorm::L2 => 0.0,
        };
        Self {
            training_mode: mode,
            teacher,
            target_ema_mode: section.choice("target_ema_mode", default.target_ema_mode),
            start_ema: section.number("start_ema", default.start_ema, 0..1),
            scale_mode: section.choice("scale_mode", default.scale_mode),
            start_scales: section.number("start_scales", default.start_scales, 1..=MANY),
            end_scales: section.number("end_scales", default.end_scales, 1..=MANY),
            loss_norm,
            loss_constant: section.number("loss_constant", loss_constant, 0..),
            weight_schedule: section.choice("weight_schedule", default.weight_schedule),
            p_mean: section.get("p_mean", default.p_mean),
            p_std: section.number("p_std", default.p_std, POSITIVE),
            q: section.number("q", default.q, POSITIVE),
            stages: section.number("stages", default.stages, 1..=MANY),
        }
    }

    /// What is wrong with the values: keys of this section.
    pub(super) fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let is_distilled = self.training_mode == TrainingMode::ConsistencyDistillation;
        validation.check_together(
            self.teacher.is_some() || !is_distilled,
            &["training_mode"],
            "teacher",
            "a trained diffusion model to distil",
            "none",
            "name its run, such as `teacher: runs/radar-diffusion`, or write `training_mode: easy_consistency_tuning`, which needs none",
        );
        validation.check_together(
            self.scale_mode == ScaleMode::Fixed || self.start_scales <= self.end_scales,
            &["start_scales"],
            "end_scales",
            "no fewer than `start_scales`",
            self.end_scales,
            "raise it, or write `scale_mode: fixed`",
        );
        let fewest = if self.scale_mode == ScaleMode::Fixed { 2 } else { 1 };
        let help = "a model is compared at two noise levels";
        let expected = format!("at least {fewest}");
        validation.check(self.start_scales >= fewest, "start_scales", &expected, self.start_scales, help);
        let constant = self.loss_constant;
        let sound = self.loss_norm != LossNorm::Cauchy || constant > 0.0;
        validation.check(sound, "loss_constant", "a number above 0", constant, "leave it out");
        let averages = self.target_ema_mode != TargetEmaMode::Adaptive || self.start_ema > 0.0;
        validation.check(averages, "start_ema", "a number above 0", self.start_ema, "use 0.95");
        validation.check(self.q > 1.0, "q", "a number above 1", self.q, "use 4, or 2 for slower stages");
        validation.errors()
    }

    /// Whether a teacher is asked in every step.
    pub fn is_distilled(&self) -> bool {
        self.training_mode == TrainingMode::ConsistencyDistillation
    }

    /// How the model becomes a denoiser: the identity at the smallest noise level, which is none at all in easy tuning.
    pub(super) fn preconditioning(&self, edm: &EdmSection) -> EdmPreconditioning {
        match self.training_mode {
            TrainingMode::EasyConsistencyTuning => EdmPreconditioning::diffusion(edm.sigma_data),
            _ => EdmPreconditioning::consistency(edm.sigma_data, edm.sigma_min),
        }
    }

    /// How many noise levels there are at each step.
    pub(super) fn curriculum(&self) -> Curriculum {
        let (start, end) = (self.start_scales, self.end_scales);
        match self.scale_mode {
            ScaleMode::Fixed => Curriculum::Fixed { levels: start },
            ScaleMode::Progressive => Curriculum::Progressive { start, end },
            ScaleMode::Doubling => Curriculum::Doubling { start, end },
        }
    }

    /// How much of the target stays at each step, if there is one of its own.
    pub(super) fn target_ema(&self) -> Option<TargetEma> {
        match self.target_ema_mode {
            TargetEmaMode::None => None,
            TargetEmaMode::Fixed => Some(TargetEma::Fixed(self.start_ema)),
            TargetEmaMode::Adaptive => {
                Some(TargetEma::Adaptive { start: self.start_ema, start_gaps: self.start_scales })
            }
        }
    }

    /// The distance of two samples.
    pub(super) fn distance(&self) -> Distance {
        match self.loss_norm {
            LossNorm::L1 => Distance::L1,
            LossNorm::L2 => Distance::L2,
            LossNorm::PseudoHuber => Distance::PseudoHuber(self.loss_constant),
            LossNorm::Cauchy => Distance::Cauchy(self.loss_constant),
        }
    }

    /// How much a noise level counts, for latents of a deviation.
    pub(super) fn weighting(&self, sigma_data: f64) -> Weighting {
        match self.weight_schedule {
            WeightSchedule::Uniform => Weighting::Uniform,
            WeightSchedule::Snr => Weighting::Snr,
            WeightSchedule::SnrPlusOne => Weighting::SnrPlusOne,
            WeightSchedule::Karras => Weighting::Karras(sigma_data),
            WeightSchedule::TruncatedSnr => Weighting::TruncatedSnr,
            WeightSchedule::InverseGap => Weighting::InverseGap,
        }
    }
}

/// The constant of improved consistency training.
const PSEUDO_HUBER: f64 = 0.00054;

/// The constant of the Cauchy distance where nothing is said.
const CAUCHY: f64 = 0.03;

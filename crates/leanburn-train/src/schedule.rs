//! The learning rate over time: Burn's schedules behind a warm-up.

use burn::lr_scheduler::{
    LrSchedulerConfig, cosine::CosineAnnealingLrSchedulerConfig, linear::LinearLrSchedulerConfig,
    module_lr_scheduler::ModuleLrScheduler, sequential::SequentialLrSchedulerConfig, step::StepLrSchedulerConfig,
};
use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// The shape of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Stays where it is.
    #[default]
    Constant,
    /// A straight line to zero.
    Linear,
    /// Half a cosine to zero ([SGDR](https://arxiv.org/abs/1608.03983)).
    Cosine,
    /// Falls by a factor every so many steps: PyTorch's `StepLR`.
    Step,
}

/// A learning rate for every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ScheduleConfig {
    /// The learning rate at its highest.
    pub learning_rate: f64,
    /// Shape after the warm-up.
    pub kind: ScheduleKind,
    /// Steps of linear warm-up: step `k` has `(k + 1) / (warmup_steps + 1)` of the learning rate.
    pub warmup_steps: u64,
    /// Steps in all; the schedule ends there.
    pub max_steps: u64,
    /// Steps from one fall of [`ScheduleKind::Step`] to the next, counted from the end of the warm-up.
    pub step_size: u64,
    /// What each of its falls multiplies the learning rate by.
    pub gamma: f64,
}

/// More steps than anybody takes.
const ENDLESS: u64 = 1 << 48;
/// What a step of the learning rate multiplies it by, where nothing says it: PyTorch's default.
const GAMMA: f64 = 0.1;

/// A constant rate of 1e-4.
impl Default for ScheduleConfig {
    fn default() -> Self {
        Self::new(1e-4)
    }
}

impl ScheduleConfig {
    /// A constant learning rate from the first step on, without end.
    pub fn new(learning_rate: f64) -> Self {
        let kind = ScheduleKind::Constant;
        Self { learning_rate, kind, warmup_steps: 0, max_steps: ENDLESS, step_size: ENDLESS, gamma: GAMMA }
    }

    /// With this shape after the warm-up. A shape that falls does so until [`max_steps`](Self::with_max_steps).
    #[must_use]
    pub fn with_kind(mut self, kind: ScheduleKind) -> Self {
        self.kind = kind;
        self
    }

    /// With so many steps of linear warm-up.
    #[must_use]
    pub fn with_warmup_steps(mut self, warmup_steps: u64) -> Self {
        self.warmup_steps = warmup_steps;
        self
    }

    /// With so many steps in all.
    #[must_use]
    pub fn with_max_steps(mut self, max_steps: u64) -> Self {
        self.max_steps = max_steps.min(ENDLESS);
        self
    }

    /// Falling to `gamma` of what it was every `step_size` steps, where the shape is [`ScheduleKind::Step`].
    #[must_use]
    pub fn with_falls(mut self, step_size: u64, gamma: f64) -> Self {
        (self.step_size, self.gamma) = (step_size.min(ENDLESS), gamma);
        self
    }

    /// The learning rate for another batch, by the linear rule of [Goyal et al.](https://arxiv.org/abs/1706.02677).
    #[must_use]
    pub fn scaled_to_batch(mut self, effective_batch: usize, base_batch: usize) -> Self {
        self.learning_rate *= effective_batch as f64 / base_batch as f64;
        self
    }

    /// The schedule at its first step.
    ///
    /// # Errors
    ///
    /// [`TrainError::Schedule`] if the learning rate is not in (0, 1], or it falls every 0 steps.
    pub fn init(&self) -> Result<Schedule, TrainError> {
        let scheduler = self
            .burn_schedule()
            .map_err(|reason| TrainError::Schedule { learning_rate: self.learning_rate, reason })?;
        Ok(Schedule { first: scheduler.clone(), scheduler, taken: 0, rate: 0.0 })
    }

    fn burn_schedule(&self) -> Result<ModuleLrScheduler, String> {
        let rate = self.learning_rate;
        if rate.is_nan() {
            return Err("it is not a number".to_string());
        }
        let warmup = self.warmup_steps.min(self.max_steps) as usize;
        let rest = (self.max_steps as usize).saturating_sub(warmup).max(1);
        let main: LrSchedulerConfig = match self.kind {
            ScheduleKind::Constant => LinearLrSchedulerConfig::new(rate, rate, rest).into(),
            ScheduleKind::Linear => LinearLrSchedulerConfig::new(rate, 0.0, rest).into(),
            ScheduleKind::Cosine => CosineAnnealingLrSchedulerConfig::new(rate, rest).into(),
            ScheduleKind::Step => {
                StepLrSchedulerConfig::new(rate, self.step_size as usize).with_gamma(self.gamma).into()
            }
        };
        if warmup == 0 {
            return SequentialLrSchedulerConfig::new(vec![main], vec![]).init();
        }
        let rise = LinearLrSchedulerConfig::new(rate / (warmup + 1) as f64, rate, warmup);
        SequentialLrSchedulerConfig::new(vec![rise.into(), main], vec![warmup]).init()
    }
}

/// A schedule in use; its position is the step it is asked for.
#[derive(Clone)]
pub struct Schedule {
    first: ModuleLrScheduler,
    scheduler: ModuleLrScheduler,
    taken: u64,
    rate: f64,
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule").field("taken", &self.taken).field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl Schedule {
    /// The learning rate of `step`, counted from 0.
    ///
    /// Burn's schedules go forward one step at a time; asking for an earlier one starts over.
    pub fn at(&mut self, step: u64) -> f64 {
        if step + 1 < self.taken {
            self.scheduler = self.first.clone();
            self.taken = 0;
        }
        while self.taken <= step {
            self.rate = self.scheduler.step().base();
            self.taken += 1;
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(kind: ScheduleKind, warmup_steps: u64) -> Vec<f64> {
        let config = ScheduleConfig::new(0.1).with_kind(kind).with_warmup_steps(warmup_steps).with_max_steps(8);
        let mut schedule = config.init().unwrap();
        (0..8).map(|step| schedule.at(step)).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close && found.len() == expected.len(), "{found:?} instead of {expected:?}");
    }

    #[test]
    fn warm_up_rises_in_equal_steps() {
        let expected = [0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1, 0.1];
        assert_close(&rates(ScheduleKind::Constant, 3), &expected);
    }

    #[test]
    fn falls_on_a_line_or_a_cosine() {
        assert_close(&rates(ScheduleKind::Linear, 0)[..3], &[0.1, 0.0875, 0.075]);
        let cosine = rates(ScheduleKind::Cosine, 4);
        assert_close(&cosine[4..], &[0.1, 0.05 + 0.05 * 0.5f64.sqrt(), 0.05, 0.05 - 0.05 * 0.5f64.sqrt()]);
    }

    #[test]
    fn falls_by_a_factor_every_so_many_steps_after_the_warm_up() {
        // torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.5)
        let config = ScheduleConfig::new(0.1).with_kind(ScheduleKind::Step).with_falls(3, 0.5).with_max_steps(8);
        let rates = |config: &ScheduleConfig| -> Vec<f64> {
            let mut schedule = config.init().unwrap();
            (0..8).map(|step| schedule.at(step)).collect()
        };
        assert_close(&rates(&config), &[0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025]);
        let warm = config.clone().with_warmup_steps(1);
        assert_close(&rates(&warm), &[0.05, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025]);
        let endless = ScheduleConfig::new(0.1).with_kind(ScheduleKind::Step);
        assert_close(&rates(&endless), &[0.1; 8]);
        assert!(config.with_falls(0, 0.5).init().is_err());
    }

    #[test]
    fn a_step_has_one_rate_however_it_is_reached() {
        for kind in [ScheduleKind::Cosine, ScheduleKind::Step] {
            let config =
                ScheduleConfig::new(0.1).with_kind(kind).with_warmup_steps(2).with_max_steps(9).with_falls(2, 0.5);
            let mut schedule = config.init().unwrap();
            let forward: Vec<f64> = (0..9).map(|step| schedule.at(step)).collect();
            assert_eq!(schedule.at(8), forward[8]);
            for step in [5, 2, 7, 0] {
                assert_eq!(config.init().unwrap().at(step), forward[step as usize]);
                assert_eq!(schedule.at(step), forward[step as usize]);
            }
        }
    }

    #[test]
    fn a_rate_out_of_range_is_rejected() {
        for learning_rate in [0.0, -1.0, 2.0, f64::NAN] {
            let config = ScheduleConfig::new(learning_rate).with_max_steps(9);
            let message = config.init().err().map(|error| error.to_string());
            assert!(message.is_some_and(|message| message.contains("learning rate")), "{learning_rate}");
        }
    }

    #[test]
    fn the_linear_rule() {
        let config = ScheduleConfig::new(1e-4).with_max_steps(9);
        assert_eq!(config.scaled_to_batch(16, 4).learning_rate, 4e-4);
    }
}

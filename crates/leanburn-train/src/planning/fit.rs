//! The fastest way to train within a budget: every batch split, with segments recomputed and a precision chosen.

use std::fmt;

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::Tensors;
use leanburn_plan::{Candidate, Class, Plan, Recording, Space, Target, Variant, splits};

use super::planner::Planner;
use super::setup::StepSetup;
use crate::precision::Precision;
use crate::recorded_step::{RecordStepError, RecordedStep, record_at_most};
use crate::trainer::Trainer;
use crate::workload::Workload;

/// A plan: a setup of the training, and what it needs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// What to build the trainer and its batches with.
    pub setup: StepSetup,
    /// Class of its changes.
    pub class: Class,
    /// The most that the step may hold, with a [margin](leanburn_plan::bound) and other bytes.
    pub peak: Bytes,
    /// Seconds of the step, by the device's rates.
    pub seconds: f64,
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at most {}, about {:.3} s a step", self.setup, self.peak, self.seconds)
    }
}

/// The plans that no other beats in both memory and time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Smallest peak first; each is faster than those before it.
    pub all: Vec<Fitted>,
    /// What may be changed.
    pub allowed: Class,
}

/// A fit that is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError<E: std::error::Error> {
    /// A step cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordStepError<E>),
    /// The trainer ignores a setting of its `StepSetup`.
    #[error(
        "the trainer was built with {found} micro-batches a step, and the setup says {expected}: give its TrainerConfig \
         `setup.accumulation_steps`"
    )]
    SetupIgnored {
        /// Micro-batches of the setup.
        expected: u64,
        /// Micro-batches of the trainer.
        found: u64,
    },
    /// There is no budget.
    #[error("there is no budget to fit into: give one with `Planner::within`")]
    NoBudget,
    /// Even the smallest plan needs more than the budget.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
}

/// A budget that is smaller than what the smallest plan needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{budget} is less than the {} of the smallest plan with {allowed} changes; {}",
    smallest.rounded_up(),
    remedy(*allowed)
)]
#[non_exhaustive]
pub struct DoesNotFit {
    /// What there is.
    pub budget: Bytes,
    /// What the smallest plan needs.
    pub smallest: Bytes,
    /// What might be changed.
    pub allowed: Class,
}

fn remedy(allowed: Class) -> &'static str {
    match allowed {
        Class::Lossless => {
            "allow half precision (`Planner::allow(Class::Numerics)`), or train on smaller items or a smaller model"
        }
        _ => "train on smaller items or a smaller model",
    }
}

impl<E: std::error::Error> FitError<E> {
    /// Whether it is the budget that is too small.
    pub fn is_over_budget(&self) -> bool {
        matches!(self, Self::DoesNotFit(_))
    }
}

impl Options {
    /// The fastest plan within a budget.
    ///
    /// # Errors
    ///
    /// [`DoesNotFit`] with what the smallest plan needs.
    pub fn within(&self, budget: Bytes) -> Result<&Fitted, DoesNotFit> {
        let smallest = self.all.first().map_or(Bytes(0), |smallest| smallest.peak);
        let fitted = self.all.iter().rev().find(|fitted| fitted.peak <= budget);
        fitted.ok_or(DoesNotFit { budget, smallest, allowed: self.allowed })
    }
}

impl Planner {
    /// The fastest way to train within the budget in steps of `effective_batch` items: how they are split into micro-batches,
    /// which segments of the model are recomputed, and, where [that is allowed](Self::allow), half precision.
    ///
    /// `build` makes the trainer that a setup says, `batch` a micro-batch of it, both on the device they are given. A larger
    /// budget never gets a slower plan, but for streamed segments, where it may be slower by 2 %.
    ///
    /// # Errors
    ///
    /// [`FitError`], which says what is missing where nothing fits.
    ///
    /// # Panics
    ///
    /// Panics if `effective_batch` is 0.
    pub fn fit<W, E>(
        &self,
        effective_batch: usize,
        build: impl Fn(&StepSetup, &Device) -> Result<Trainer<W>, E>,
        batch: impl Fn(&StepSetup, &Device) -> W::Batch,
    ) -> Result<Fitted, FitError<E>>
    where
        W: Workload,
        W::Batch: Tensors + Clone,
        E: std::error::Error,
    {
        let budget = self.budget().ok_or(FitError::NoBudget)?;
        Ok(self.options_down_to(budget, effective_batch, build, batch)?.within(budget)?.clone())
    }

    /// All plans that no other beats in both memory and time, for every budget; as [`fit`](Self::fit).
    ///
    /// # Errors
    ///
    /// [`FitError::Record`], [`FitError::SetupIgnored`].
    ///
    /// # Panics
    ///
    /// Panics if `effective_batch` is 0.
    pub fn options<W, E>(
        &self,
        effective_batch: usize,
        build: impl Fn(&StepSetup, &Device) -> Result<Trainer<W>, E>,
        batch: impl Fn(&StepSetup, &Device) -> W::Batch,
    ) -> Result<Options, FitError<E>>
    where
        W: Workload,
        W::Batch: Tensors + Clone,
        E: std::error::Error,
    {
        self.options_down_to(Bytes(0), effective_batch, build, batch)
    }

    fn options_down_to<W, E>(
        &self,
        least: Bytes,
        effective_batch: usize,
        build: impl Fn(&StepSetup, &Device) -> Result<Trainer<W>, E>,
        batch: impl Fn(&StepSetup, &Device) -> W::Batch,
    ) -> Result<Options, FitError<E>>
    where
        W: Workload,
        W::Batch: Tensors + Clone,
        E: std::error::Error,
    {
        assert!(effective_batch > 0, "effective_batch is 0; a step needs at least 1 item");
        let half = self.half_precision();
        let record = |setup: &StepSetup, target: Target| -> Result<Recording, FitError<E>> {
            let recorded = record_at_most(2, target, |device| build(setup, device), |device| batch(setup, device))?;
            let RecordedStep { recording, micro_batches: found, .. } = recorded;
            match setup.accumulation_steps {
                expected if expected == found => Ok(recording),
                expected => Err(FitError::SetupIgnored { expected, found }),
            }
        };
        let space = SetupSpace { target: self.target(), half, effective_batch, record };
        let fitted = |plan: Plan| Fitted {
            setup: space.setup(&plan.candidate),
            class: plan.class,
            peak: plan.peak,
            seconds: plan.seconds,
        };
        let all = self.search(&space, least)?.plans.into_iter().map(fitted).collect();
        Ok(Options { all, allowed: self.allowed() })
    }
}

/// The setups of one effective batch; `record` records a step of one.
struct SetupSpace<R> {
    target: Target,
    half: Option<Precision>,
    effective_batch: usize,
    record: R,
}

impl<R> SetupSpace<R> {
    fn setup(&self, candidate: &Candidate) -> StepSetup {
        let precision = self.half.filter(|_| candidate.variant == 1).unwrap_or_default();
        StepSetup::new(candidate.micro_batch, candidate.accumulation)
            .with_residency(candidate.residency())
            .with_precision(precision)
    }
}

impl<R, E> Space for SetupSpace<R>
where
    R: Fn(&StepSetup, Target) -> Result<Recording, FitError<E>>,
    E: std::error::Error,
{
    type Error = FitError<E>;

    fn variants(&self) -> Vec<Variant> {
        let half = |half: Precision| Variant {
            change: format!("precision {half}"),
            class: Class::Numerics,
            cost: "activations are rounded; weights, statistics and sums stay float32".to_string(),
        };
        std::iter::once(Variant::default()).chain(self.half.map(half)).collect()
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        splits(self.effective_batch)
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, Self::Error> {
        (self.record)(&self.setup(candidate), self.target)
    }
}

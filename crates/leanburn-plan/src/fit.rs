//! Plans that fit: which of the ways to train a model are the fastest within a budget.
//!
//! The plans to choose from do not depend on the budget, each is verified on its own recording, and the fastest one that
//! fits is taken: a larger budget never gets a slower plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{MemoryModel, Rates, Recording, Timeline};

/// What a change does to the training, mildest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The mathematics stays: the same sums, in another order at most.
    #[default]
    Lossless,
    /// The model stays, its arithmetic is rounded in another way.
    Numerics,
    /// The model or its task is another.
    Model,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lossless => "lossless",
            Self::Numerics => "numerics",
            Self::Model => "model",
        })
    }
}

/// One way of training the model, apart from micro-batch and recomputation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// What is changed, such as `precision bf16`; empty for the training as configured.
    pub change: String,
    /// Its class.
    pub class: Class,
    /// What it costs, in words.
    pub cost: String,
}

/// A way of training.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Index of the [`Variant`].
    pub variant: usize,
    /// Items of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of a step.
    pub accumulation: u64,
    /// Segments that are recomputed.
    pub recompute: Vec<String>,
    /// The most positions that attention takes at a time; as many as is fastest if none.
    pub attention_block: Option<usize>,
}

impl Candidate {
    /// Micro-batches that a recording needs: the second meets the gradients of the first, the others are like it.
    pub fn recorded(&self) -> u64 {
        self.accumulation.min(2)
    }
}

/// What can be planned.
pub trait Space {
    /// What recording can fail with.
    type Error;

    /// The variants, the training as configured first.
    fn variants(&self) -> Vec<Variant>;

    /// Micro-batch and accumulation of one effective batch.
    fn splits(&self) -> Vec<(usize, u64)>;

    /// Records a step with [`Candidate::recorded`] micro-batches.
    ///
    /// # Errors
    ///
    /// As the implementation says.
    fn record(&self, candidate: &Candidate) -> Result<Recording, Self::Error>;

    /// The same in a way that takes less memory and more time, apart from micro-batch and recomputation: a smaller block of
    /// attention. None where it would not lower the peak of this candidate's `timeline`, or there is none; by default.
    fn lower(&self, _candidate: &Candidate, _timeline: &Timeline) -> Option<Candidate> {
        None
    }

    /// Bytes held beside a candidate's step, such as batches that wait.
    fn beside(&self, _candidate: &Candidate) -> u64 {
        0
    }
}

/// What plans are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// How it allocates.
    pub memory: &'a dyn MemoryModel,
    /// How fast it is.
    pub rates: Rates,
    /// Bytes held beside the step: volumes in memory, a driver's context.
    pub beside: u64,
}

/// A way of training and what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The way.
    pub candidate: Candidate,
    /// Class of its changes.
    pub class: Class,
    /// Peak in bytes, read off its own recording, with its [margin](crate::bound) and what is held beside the step.
    pub peak: u64,
    /// Seconds of a step, by the device's rates.
    pub seconds: f64,
}

/// The plans of which no other needs at most as much and takes at most the time, by peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frontier {
    /// Smallest peak first.
    pub plans: Vec<Plan>,
}

impl Frontier {
    /// The fastest plan within the budget.
    pub fn within(&self, budget: u64) -> Option<&Plan> {
        self.plans.iter().rev().find(|plan| plan.peak <= budget)
    }

    /// The smallest peak of all.
    pub fn smallest(&self) -> Option<&Plan> {
        self.plans.first()
    }

    /// The best of `plans`; of equal ones the first.
    pub(crate) fn of(mut plans: Vec<Plan>) -> Self {
        let order = |one: &Plan, other: &Plan| {
            let first = one.peak.cmp(&other.peak).then(one.seconds.total_cmp(&other.seconds));
            first
                .then(one.class.cmp(&other.class))
                .then(one.candidate.recompute.len().cmp(&other.candidate.recompute.len()))
        };
        plans.sort_by(order);
        let mut best: Vec<Plan> = Vec::new();
        for plan in plans {
            if best.last().is_none_or(|last| plan.seconds < last.seconds) {
                best.push(plan);
            }
        }
        Self { plans: best }
    }
}

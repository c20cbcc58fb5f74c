//! Plans, and those of them that are worth taking.
//!
//! The plans to choose from do not depend on the budget, each is verified on its own recording, and the fastest one that
//! fits is taken: a larger budget never gets a slower plan. Where the search is [for some budgets](crate::Plans::down_to), one with streamed
//! segments may be slower by 2 %.

use leanburn_common::Bytes;
use serde::{Deserialize, Serialize};

use crate::candidate::Candidate;
use crate::memory_model::MemoryModel;
use crate::rates::Rates;
use crate::space::Class;

/// What plans are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// How it allocates.
    pub memory: &'a dyn MemoryModel,
    /// How fast it is.
    pub rates: Rates,
    /// Other bytes than those of the step: volumes in memory, a driver's context.
    pub other_bytes: Bytes,
}

/// A candidate and what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is chosen.
    pub candidate: Candidate,
    /// Class of its changes.
    pub class: Class,
    /// Peak, read off its own recording, with its [margin](crate::bound), and other bytes.
    pub peak: Bytes,
    /// The largest tensor, which the device must allocate at once.
    pub largest: Bytes,
    /// Seconds of a step, by the device's rates.
    pub seconds: f64,
}

impl Plan {
    /// Whether its largest tensor fits into the largest allocation of a device, where that is known.
    pub fn is_allocated(&self, most: Option<Bytes>) -> bool {
        most.is_none_or(|most| self.largest <= most)
    }
}

/// The plans of which no other needs at most as much and takes at most the time, by peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frontier {
    /// Smallest peak first.
    pub plans: Vec<Plan>,
}

impl Frontier {
    /// The fastest plan within the budget.
    pub fn within(&self, budget: Bytes) -> Option<&Plan> {
        self.plans.iter().rev().find(|plan| plan.peak <= budget)
    }

    /// The smallest peak of all.
    pub fn smallest(&self) -> Option<&Plan> {
        self.plans.first()
    }

    /// Those for budgets of `least` and more.
    pub(crate) fn down_to(mut self, least: Bytes) -> Self {
        let within = self.plans.partition_point(|plan| plan.peak <= least);
        self.plans.drain(..within.saturating_sub(1));
        self
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

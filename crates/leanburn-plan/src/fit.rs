//! Plans that fit: which of the ways to train a model are the fastest within a budget.
//!
//! The plans to choose from do not depend on the budget, each is verified on its own recording, and the fastest one that
//! fits is taken: a larger budget never gets a slower plan.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chain::{self, Choice};
use crate::profile::Profile;
use crate::{MemoryModel, Rates, Recording, Timeline, bound};

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
    /// Peak in bytes, read off its own recording, with its [margin](bound) and what is held beside the step.
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

    fn of(mut plans: Vec<Plan>) -> Self {
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

/// The best plans whose changes are of class `allowed` or milder.
///
/// For each variant and micro-batch: every choice of segments where they are few, else those that dynamic programming
/// finds for a ladder of budgets.
///
/// # Errors
///
/// The first that recording gives.
pub fn frontier<S: Space>(space: &S, machine: &Machine<'_>, allowed: Class) -> Result<Frontier, S::Error> {
    let mut plans = Vec::new();
    for (variant, Variant { class, .. }) in space.variants().iter().enumerate() {
        if *class <= allowed {
            for (micro_batch, accumulation) in space.splits() {
                let plain = Candidate { variant, micro_batch, accumulation, recompute: Vec::new() };
                plans.extend(Search { space, machine, class: *class, plain }.plans()?);
            }
        }
    }
    Ok(Frontier::of(plans))
}

/// As many choices of segments are tried one and all.
const FEW: usize = 256;
/// Budgets that dynamic programming is asked for.
const RUNGS: u64 = 24;

/// The choice of segments of one variant and micro-batch.
struct Search<'a, S> {
    space: &'a S,
    machine: &'a Machine<'a>,
    class: Class,
    plain: Candidate,
}

/// An outermost segment and the ways of running it.
struct Stage {
    /// For each way the segments that are recomputed.
    ways: Vec<Vec<String>>,
}

impl<S: Space> Search<'_, S> {
    fn plans(&self) -> Result<Vec<Plan>, S::Error> {
        let (timeline, plan) = self.verify(Vec::new())?;
        let stages = stages(&timeline);
        let assignments: usize = stages.iter().map(|stage| stage.ways.len()).product();
        let choices = match assignments <= FEW {
            true => every(&stages),
            false => self.planned(&timeline, &stages)?,
        };
        let mut seen = HashSet::from([Vec::new()]);
        let mut plans = vec![plan];
        for choices in choices {
            let recompute: Vec<String> =
                stages.iter().zip(&choices).flat_map(|(stage, &way)| stage.ways[way].iter().cloned()).collect();
            if seen.insert(recompute.clone()) {
                plans.push(self.verify(recompute)?.1);
            }
        }
        Ok(plans)
    }

    /// A recording's timeline, and the plan as it shows.
    fn verify(&self, recompute: Vec<String>) -> Result<(Timeline, Plan), S::Error> {
        let candidate = Candidate { recompute, ..self.plain.clone() };
        let timeline = self.space.record(&candidate)?.timeline(self.machine.memory);
        let seconds = self.machine.rates.seconds(&timeline, candidate.accumulation, candidate.recorded());
        let beside = self.machine.beside + self.space.beside(&candidate);
        let plan = Plan { class: self.class, peak: bound(timeline.peak()) + beside, seconds, candidate };
        Ok((timeline, plan))
    }

    /// What dynamic programming chooses for budgets from the smallest peak to the largest, and the ways of all alike.
    fn planned(&self, plain: &Timeline, stages: &[Stage]) -> Result<Vec<Vec<usize>>, S::Error> {
        let rates = &self.machine.rates;
        let most = stages.iter().map(|stage| stage.ways.len()).max().unwrap_or(1);
        let alike = |way: usize| -> Vec<usize> { stages.iter().map(|stage| way.min(stage.ways.len() - 1)).collect() };
        let mut profiles = vec![Profile::of(plain, rates)];
        for way in 1..most {
            let recompute = stages.iter().zip(alike(way)).flat_map(|(stage, way)| stage.ways[way].clone()).collect();
            profiles.push(Profile::of(&self.verify(recompute)?.0, rates));
        }
        let outside = profiles.iter().map(|profile| profile.outside).min().unwrap_or(0);
        let mut chain: Vec<Vec<Choice>> = Vec::new();
        for (stage, (name, _)) in stages.iter().zip(&profiles[0].segments) {
            let ways = 0..stage.ways.len();
            chain.push(ways.filter_map(|way| profiles[way].choice(name)).collect());
        }
        chain.push(vec![Choice { kept: 0, own: outside, seconds: 0.0 }]);
        let (low, high) = (chain::smallest_peak(&chain), chain::peak(&chain, &vec![0; chain.len()]));
        let rungs = (0..=RUNGS).map(|rung| low + (high.max(low) - low) / RUNGS * rung);
        let found = rungs.filter_map(|budget| chain::fastest(&chain, budget));
        Ok(found.chain((1..most).map(alike)).collect())
    }
}

/// The outermost segments, each kept, recomputed, and where it has segments inside: those recomputed, or both.
fn stages(timeline: &Timeline) -> Vec<Stage> {
    let name = |index: usize| timeline.segments[index].clone();
    let indices = || 0..timeline.segments.len();
    let tops = indices().filter(|&index| timeline.parents[index].is_none());
    let stage = |top: usize| {
        let inside: Vec<String> =
            indices().filter(|&index| index != top && timeline.outermost(index) == top).map(name).collect();
        let whole = vec![name(top)];
        let both = [whole.clone(), inside.clone()].concat();
        let ways = match inside.len() {
            0 => vec![Vec::new(), whole],
            _ => vec![Vec::new(), whole, inside, both],
        };
        Stage { ways }
    };
    tops.map(stage).collect()
}

/// Every choice for each stage.
fn every(stages: &[Stage]) -> Vec<Vec<usize>> {
    stages.iter().fold(vec![Vec::new()], |beginnings, stage| {
        let longer = |beginning: &Vec<usize>| {
            let ways = 0..stage.ways.len();
            ways.map(|way| [beginning.as_slice(), &[way]].concat()).collect::<Vec<_>>()
        };
        beginnings.iter().flat_map(longer).collect()
    })
}

//! The search for plans: every variant and micro-batch, with segments and knobs chosen for many budgets.

use std::collections::HashSet;

use crate::candidate::Candidate;
use crate::chain::{self, Choice};
use crate::plans::{Frontier, Machine, Plan};
use crate::profile::Profile;
use crate::space::{Class, Space, Variant};
use crate::timeline::Timeline;

/// The best plans whose changes are of class `allowed` or milder.
///
/// For each variant and micro-batch: every choice of segments where they are few, else those that dynamic programming
/// finds for a series of budgets; each of them also with [knobs](Space::knobs) as low as helps.
///
/// # Errors
///
/// The first that recording gives.
pub fn frontier<S: Space>(space: &S, machine: &Machine<'_>, allowed: Class) -> Result<Frontier, S::Error> {
    Plans::new(space, machine).up_to(allowed)
}

/// A [`frontier`] that can be asked for again: what was searched for one class is not searched for the next.
#[derive(Debug)]
pub struct Plans<'a, S> {
    space: &'a S,
    machine: &'a Machine<'a>,
    /// For each variant the plans, once it was searched.
    found: Vec<Option<Vec<Plan>>>,
}

impl<'a, S: Space> Plans<'a, S> {
    /// Nothing is searched yet.
    pub fn new(space: &'a S, machine: &'a Machine<'a>) -> Self {
        Self { space, machine, found: Vec::new() }
    }

    /// The best plans whose changes are of class `allowed` or milder.
    ///
    /// # Errors
    ///
    /// The first that recording gives.
    pub fn up_to(&mut self, allowed: Class) -> Result<Frontier, S::Error> {
        let variants = self.space.variants();
        self.found.resize(variants.len(), None);
        let mut plans = Vec::new();
        for (variant, Variant { class, .. }) in variants.iter().enumerate().filter(|(_, one)| one.class <= allowed) {
            let found = match self.found[variant].take() {
                Some(found) => found,
                None => self.search(variant, *class)?,
            };
            plans.extend(found.iter().cloned());
            self.found[variant] = Some(found);
        }
        Ok(Frontier::of(plans))
    }

    fn search(&self, variant: usize, class: Class) -> Result<Vec<Plan>, S::Error> {
        let mut plans = Vec::new();
        for (micro_batch, accumulation) in self.space.splits() {
            let plain = Candidate { variant, ..Candidate::new(micro_batch, accumulation) };
            plans.extend(Search { space: self.space, machine: self.machine, class, plain }.plans()?);
        }
        Ok(plans)
    }
}

/// As many choices of segments are tried one and all.
const FEW: usize = 256;
/// Budgets that dynamic programming is asked for.
const BUDGETS: u64 = 24;

/// The choice of segments of one variant and micro-batch.
struct Search<'a, S> {
    space: &'a S,
    machine: &'a Machine<'a>,
    class: Class,
    plain: Candidate,
}

/// An outermost segment and the options of running it.
struct Stage {
    /// For each option the segments that are recomputed.
    options: Vec<Vec<String>>,
}

impl<S: Space> Search<'_, S> {
    fn plans(&self) -> Result<Vec<Plan>, S::Error> {
        let plain = self.lowered(Vec::new())?;
        let (highest, lowest) = (&plain[0], &plain[plain.len() - 1]);
        let stages = stages(&highest.0);
        let assignments: usize = stages.iter().map(|stage| stage.options.len()).product();
        let choices = match assignments <= FEW {
            true => every(&stages),
            false if plain.len() == 1 => self.planned(highest, &stages)?,
            // where knobs are low other segments may be worth keeping
            false => [self.planned(highest, &stages)?, self.planned(lowest, &stages)?].concat(),
        };
        let mut seen = HashSet::from([Vec::new()]);
        let mut plans: Vec<Plan> = plain.into_iter().map(|(_, plan)| plan).collect();
        for choices in choices {
            let recompute: Vec<String> = stages
                .iter()
                .zip(&choices)
                .flat_map(|(stage, &option)| stage.options[option].iter().cloned())
                .collect();
            if seen.insert(recompute.clone()) {
                plans.extend(self.lowered(recompute)?.into_iter().map(|(_, plan)| plan));
            }
        }
        Ok(plans)
    }

    /// A choice of segments, then the same with a knob one value lower, as long as one helps.
    fn lowered(&self, recompute: Vec<String>) -> Result<Vec<(Timeline, Plan)>, S::Error> {
        let knobs = self.space.knobs(&self.plain);
        let mut last = self.verify(Candidate { recompute, ..self.plain.clone() })?;
        let mut plans = Vec::new();
        while let Some(candidate) = knobs.iter().find_map(|knob| knob.lower(&last.1.candidate, &last.0)) {
            plans.push(std::mem::replace(&mut last, self.verify(candidate)?));
        }
        plans.push(last);
        Ok(plans)
    }

    /// A recording's timeline, and the plan as it shows.
    fn verify(&self, candidate: Candidate) -> Result<(Timeline, Plan), S::Error> {
        let timeline = self.space.record(&candidate)?.timeline(self.machine.memory);
        let seconds = self.machine.rates.seconds(&timeline, candidate.accumulation, candidate.recorded());
        let other_bytes = self.machine.other_bytes + self.space.other_bytes(&candidate);
        let peak = self.machine.memory.needed(&timeline) + other_bytes;
        let plan = Plan { class: self.class, peak, seconds, candidate };
        Ok((timeline, plan))
    }

    /// What dynamic programming chooses for budgets from the smallest peak to the largest, and all segments run alike.
    fn planned(&self, (plain, plan): &(Timeline, Plan), stages: &[Stage]) -> Result<Vec<Vec<usize>>, S::Error> {
        let rates = &self.machine.rates;
        let most = stages.iter().map(|stage| stage.options.len()).max().unwrap_or(1);
        let alike =
            |option: usize| -> Vec<usize> { stages.iter().map(|stage| option.min(stage.options.len() - 1)).collect() };
        let mut profiles = vec![Profile::of(plain, rates)];
        for option in 1..most {
            let recompute =
                stages.iter().zip(alike(option)).flat_map(|(stage, option)| stage.options[option].clone()).collect();
            let candidate = Candidate { recompute, ..plan.candidate.clone() };
            profiles.push(Profile::of(&self.verify(candidate)?.0, rates));
        }
        Ok(proposals(&profiles, stages).into_iter().chain((1..most).map(alike)).collect())
    }
}

/// The fastest choices by dynamic programming for budgets from the smallest peak to the largest.
fn proposals(profiles: &[Profile], stages: &[Stage]) -> Vec<Vec<usize>> {
    let outside = profiles.iter().map(|profile| profile.outside).min().unwrap_or(0);
    let mut chain: Vec<Vec<Choice>> = Vec::new();
    for (stage, (name, _)) in stages.iter().zip(&profiles[0].segments) {
        let options = 0..stage.options.len();
        chain.push(options.filter_map(|option| profiles[option].choice(name)).collect());
    }
    chain.push(vec![Choice { saved: 0, own: outside, seconds: 0.0 }]);
    let (low, high) = (chain::smallest_peak(&chain), chain::peak(&chain, &vec![0; chain.len()]));
    let budgets = (0..=BUDGETS).map(|index| low + (high.max(low) - low) / BUDGETS * index);
    budgets.filter_map(|budget| chain::fastest(&chain, budget)).collect()
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
        let options = match inside.len() {
            0 => vec![Vec::new(), whole],
            _ => vec![Vec::new(), whole, inside, both],
        };
        Stage { options }
    };
    tops.map(stage).collect()
}

/// Every choice for each stage.
fn every(stages: &[Stage]) -> Vec<Vec<usize>> {
    stages.iter().fold(vec![Vec::new()], |beginnings, stage| {
        let longer = |beginning: &Vec<usize>| {
            let options = 0..stage.options.len();
            options.map(|option| [beginning.as_slice(), &[option]].concat()).collect::<Vec<_>>()
        };
        beginnings.iter().flat_map(longer).collect()
    })
}

//! The search for plans: every variant and micro-batch, with segments and knobs chosen for many budgets.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use leanburn_common::Bytes;
use leanburn_ops::{StreamKeep, StreamSettings};

use crate::candidate::Candidate;
use crate::chain;
use crate::estimate::{
    Alike, Estimate, Stage, alike, every, is_worth_it, most_options, recomputed, stages, streamable, streamed,
};
use crate::plans::{Frontier, Machine, Plan};
use crate::profile::Profile;
use crate::space::{Class, Space, Variant};
use crate::timeline::Timeline;

/// The best plans whose changes are of class `allowed` or milder.
///
/// For each variant and micro-batch: every choice of segments where they are few, else those that dynamic programming
/// finds for a series of budgets; each of them also with [knobs](Space::knobs) as low as helps. Of the smallest micro-batch also with
/// segments streamed, which takes less memory and more time than recomputing them. A choice that a plan beats by what is estimated of it
/// is not recorded.
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
    /// The largest allocation of the device.
    most: Option<Bytes>,
    /// For each variant the plans, once it was searched.
    found: Vec<Option<Found>>,
}

/// The plans of a variant.
#[derive(Clone, Debug)]
struct Found {
    plans: Vec<Plan>,
    /// They are the best of budgets from this on.
    least: Bytes,
    /// Nothing fitted, and the others than the smallest were not looked for.
    is_smallest_alone: bool,
}

impl Found {
    /// Whether they are the best of budgets from `least` on.
    fn are_known(&self, least: Bytes) -> bool {
        self.least <= least && !(self.is_smallest_alone && self.plans.iter().any(|plan| plan.peak <= least))
    }
}

impl<'a, S: Space> Plans<'a, S> {
    /// Nothing is searched yet.
    pub fn new(space: &'a S, machine: &'a Machine<'a>) -> Self {
        Self { space, machine, most: None, found: Vec::new() }
    }

    /// Without plans that have a tensor larger than the device allocates, as long as there are others.
    #[must_use]
    pub fn with_largest_allocation(self, most: Option<Bytes>) -> Self {
        Self { most, ..self }
    }

    /// The best plans whose changes are of class `allowed` or milder.
    ///
    /// # Errors
    ///
    /// The first that recording gives.
    pub fn up_to(&mut self, allowed: Class) -> Result<Frontier, S::Error> {
        self.down_to(Bytes(0), allowed)
    }

    /// The same for budgets of `least` and more, with fewer recordings: where a plan fits into `least`, none is looked for that takes
    /// longer; of a variant of which none does, the smallest is among them, and few others.
    ///
    /// # Errors
    ///
    /// The first that recording gives.
    pub fn down_to(&mut self, least: Bytes, allowed: Class) -> Result<Frontier, S::Error> {
        let variants = self.space.variants();
        self.found.resize(variants.len(), None);
        let mut plans = Vec::new();
        for (variant, Variant { class, .. }) in variants.iter().enumerate().filter(|(_, one)| one.class <= allowed) {
            let found = match self.found[variant].take().filter(|found| found.are_known(least)) {
                Some(found) => found,
                None => {
                    let milder: Vec<Plan> = plans.iter().filter(|plan: &&Plan| plan.class <= *class).cloned().collect();
                    self.search(variant, *class, &milder, least)?
                }
            };
            plans.extend(found.plans.iter().cloned());
            self.found[variant] = Some(found);
        }
        if plans.iter().any(|plan| plan.is_allocated(self.most)) {
            plans.retain(|plan| plan.is_allocated(self.most));
        }
        Ok(Frontier::of(plans).down_to(least))
    }

    fn search(&self, variant: usize, class: Class, known: &[Plan], least: Bytes) -> Result<Found, S::Error> {
        let (space, machine, most) = (self.space, self.machine, self.most);
        let mut search =
            Search { space, machine, most, class, known, least, probes: false, remembered: RefCell::default() };
        let splits = self.space.splits().into_iter();
        let plain = splits
            .map(|(micro_batch, accumulation)| Candidate { variant, ..Candidate::new(micro_batch, accumulation) });
        // every split as it is comes first: most of what can be recomputed in one is beaten by another
        let starts: Vec<Vec<Rc<Recorded>>> = plain.map(|plain| search.lowered(plain)).collect::<Result<_, _>>()?;
        let mut plans: Vec<Plan> = starts.iter().flatten().map(|start| start.plan.clone()).collect();
        let smallest = starts.iter().map(|start| start[0].plan.candidate.micro_batch).min();
        let of_smallest = starts.iter().find(|start| smallest == Some(start[0].plan.candidate.micro_batch));
        if let Some(start) = of_smallest.filter(|_| least > Bytes(0) && !search.fits(search.allocated(&plans))) {
            search.probes = true;
            if let Some(too_large) = search.smallest(start)? {
                plans.extend(too_large);
                return Ok(Found { plans, least, is_smallest_alone: true });
            }
            search.probes = false;
        }
        for start in &starts {
            let quickest = start.iter().map(|recorded| recorded.plan.seconds).fold(f64::INFINITY, f64::min);
            if search.allocated(&plans).any(|plan| plan.peak <= least && plan.seconds <= quickest) {
                continue; // recomputing and streaming take more time
            }
            let alike = search.split(start, &mut plans)?;
            if smallest == Some(start[0].plan.candidate.micro_batch) {
                search.streams(&start[0], &alike, &mut plans)?;
            }
        }
        Ok(Found { plans, least, is_smallest_alone: false })
    }
}

/// As many choices of segments are tried one and all.
const FEW: usize = 256;
/// Budgets that dynamic programming is asked for.
const BUDGETS: u64 = 24;
/// The same of each way to stream: its recordings are long.
const STREAM_BUDGETS: u64 = 6;
/// Ways to stream that are tried, with their planes of a slab and the percentage of one more volume: the more is stored the faster, the
/// thinner the slabs the less is there.
const STREAMS: [(StreamKeep, usize, u8); 6] = [
    (StreamKeep::Two, 8, 0),
    (StreamKeep::One, 8, 50),
    (StreamKeep::One, 8, 0),
    (StreamKeep::None, 8, 50),
    (StreamKeep::None, 8, 0),
    (StreamKeep::None, 4, 0),
];
/// The one of them that takes the least.
const THINNEST: (StreamKeep, usize, u8) = STREAMS[STREAMS.len() - 1];
/// So many times the shortest that any way to stream might take is short enough for the smallest budget.
const ENOUGH: f64 = 1.02;
/// The one that takes the least of all, of the segments that the smallest plan streams: where neighbours are one segment, what one of them takes
/// says nothing of other choices.
const LEAST: (StreamKeep, usize) = (StreamKeep::Joined, 4);

/// The choice of segments of a variant's splits.
struct Search<'a, S> {
    space: &'a S,
    machine: &'a Machine<'a>,
    most: Option<Bytes>,
    class: Class,
    /// Plans of milder classes.
    known: &'a [Plan],
    /// The smallest budget.
    least: Bytes,
    /// Whether it is being seen if anything fits.
    probes: bool,
    /// What was recorded for that, and is asked for again if something may.
    remembered: RefCell<HashMap<Candidate, Rc<Recorded>>>,
}

/// A plan and the timeline that it was read off.
struct Recorded {
    timeline: Timeline,
    plan: Plan,
}

impl<S: Space> Search<'_, S> {
    /// What is recorded of the smallest split on the way to its smallest plan, `start` with nothing recomputed; `None` if some choice of it
    /// may fit into the smallest budget.
    fn smallest(&self, start: &[Rc<Recorded>]) -> Result<Option<Vec<Plan>>, S::Error> {
        let lowest = &start[start.len() - 1];
        let mut plans = Vec::new();
        let recomputing = self.alike(lowest, stages(&lowest.timeline), &mut plans)?;
        let may_fit = |estimate: &Estimate| estimate.smallest_peak() <= self.least.get() as f64;
        let mut estimate = self.estimate(lowest, &recomputing);
        if may_fit(&estimate) || self.fits(plans.iter()) {
            return Ok(None);
        }
        let stages = streamable(&lowest.timeline, &recomputing.stages);
        let with_streams = WithStreams { plain: lowest, recomputing: &recomputing, stages };
        if with_streams.stages.iter().any(|stage| stage.streamed.is_some()) {
            let all = with_streams.all(self, THINNEST)?;
            estimate = with_streams.estimate(self, &all[0]);
            plans.extend(all.iter().map(|recorded| recorded.plan.clone()));
            if may_fit(&estimate) {
                return Ok(None);
            }
        }
        plans.extend(self.plans(with_streams.candidate(&estimate.smallest(), THINNEST))?);
        with_streams.joined(self, &mut plans)?;
        Ok(if self.fits(plans.iter()) { None } else { Some(plans) })
    }

    /// Adds what is worth recomputing of one split; `start` is the split with nothing recomputed, knobs from high to low.
    fn split(&self, start: &[Rc<Recorded>], plans: &mut Vec<Plan>) -> Result<Alike, S::Error> {
        let (highest, lowest) = (&start[0], &start[start.len() - 1]);
        let stages = stages(&highest.timeline);
        let alike = self.alike(highest, stages.clone(), plans)?;
        let mut estimates = vec![self.estimate(highest, &alike)];
        if start.len() > 1 {
            // where knobs are low other segments may be worth keeping
            estimates.push(self.estimate(lowest, &self.alike(lowest, stages.clone(), plans)?));
        }
        let mut choices: Vec<Vec<usize>> =
            estimates.iter().flat_map(|estimate| estimate.proposals(estimate.kept(), BUDGETS)).collect();
        let assignments = stages.iter().fold(1, |count: usize, stage| count.saturating_mul(stage.options.len()));
        if assignments <= FEW {
            choices.extend(every(&stages));
        }
        let mut seen: HashSet<Vec<usize>> = estimates[0].alike.iter().cloned().collect(); // recorded already
        choices.retain(|choice| seen.insert(choice.clone()));
        for choice in &choices {
            if is_worth_it(&estimates, choice, self.allocated(plans), self.least) {
                let candidate = Candidate { recompute: recomputed(&stages, choice), ..highest.plan.candidate.clone() };
                plans.extend(self.plans(candidate)?);
            }
        }
        Ok(alike)
    }

    /// Adds what is worth streaming of a split, below what recomputing its segments comes down to; `plain` has nothing recomputed.
    fn streams(&self, plain: &Recorded, recomputing: &Alike, plans: &mut Vec<Plan>) -> Result<(), S::Error> {
        let stages = streamable(&plain.timeline, &recomputing.stages);
        if stages.iter().all(|stage| stage.streamed.is_none()) || self.fits(self.allocated(plans)) {
            return Ok(());
        }
        let with_streams = WithStreams { plain, recomputing, stages };
        let first = with_streams.all(self, STREAMS[0])?;
        let enough = ENOUGH * with_streams.estimate(self, &first[0]).shortest(&with_streams.stages, self.least);
        with_streams.way(self, STREAMS[0], first, plans)?;
        if self.least > Bytes(0) && !self.fits(self.allocated(plans)) {
            let all = with_streams.all(self, THINNEST)?;
            if with_streams.estimate(self, &all[0]).smallest_peak() > self.least.get() as f64 {
                // nor do the ways between fit, which need more
                with_streams.way(self, THINNEST, all, plans)?;
                return with_streams.joined(self, plans);
            }
        }
        for way in STREAMS.into_iter().skip(1) {
            if self.fits(self.allocated(plans).filter(|plan| plan.seconds <= enough)) {
                return Ok(());
            }
            with_streams.way(self, way, with_streams.all(self, way)?, plans)?;
        }
        with_streams.joined(self, plans)
    }

    /// Whether one of the plans fits into the smallest budget.
    fn fits<'p>(&self, mut plans: impl Iterator<Item = &'p Plan>) -> bool {
        plans.any(|plan| plan.peak <= self.least)
    }

    /// The plans that the device can allocate: others beat none.
    fn allocated<'p>(&'p self, plans: &'p [Plan]) -> impl Iterator<Item = &'p Plan> {
        self.known.iter().chain(plans).filter(|plan| plan.is_allocated(self.most))
    }

    /// A candidate, then the same with a knob one value lower, as long as one helps.
    fn lowered(&self, candidate: Candidate) -> Result<Vec<Rc<Recorded>>, S::Error> {
        let knobs = self.space.knobs(&candidate);
        let mut recorded = vec![self.record(candidate)?];
        let lower =
            |last: &Rc<Recorded>| knobs.iter().find_map(|knob| knob.lower(&last.plan.candidate, &last.timeline));
        while let Some(candidate) = recorded.last().and_then(lower) {
            recorded.push(self.record(candidate)?);
        }
        Ok(recorded)
    }

    /// The plans of [`Self::lowered`].
    fn plans(&self, candidate: Candidate) -> Result<impl Iterator<Item = Plan>, S::Error> {
        Ok(self.lowered(candidate)?.into_iter().map(|recorded| recorded.plan.clone()))
    }

    /// A recording's timeline, and the plan as it shows.
    fn record(&self, candidate: Candidate) -> Result<Rc<Recorded>, S::Error> {
        if let Some(recorded) = self.remembered.borrow().get(&candidate) {
            return Ok(Rc::clone(recorded));
        }
        let recorded = Rc::new(self.recorded(candidate)?);
        if self.probes {
            self.remembered.borrow_mut().insert(recorded.plan.candidate.clone(), Rc::clone(&recorded));
        }
        Ok(recorded)
    }

    fn recorded(&self, candidate: Candidate) -> Result<Recorded, S::Error> {
        let timeline = self.space.record(&candidate)?.timeline(self.machine.memory);
        let seconds = self.machine.rates.seconds(&timeline, candidate.accumulation, candidate.recorded());
        let other_bytes = self.machine.other_bytes + self.space.other_bytes(&candidate);
        let peak = self.machine.memory.needed(&timeline) + other_bytes;
        let largest = timeline.largest();
        Ok(Recorded { timeline, plan: Plan { class: self.class, peak, largest, seconds, candidate } })
    }

    /// Recordings in which all segments run alike; these are plans too, and with lower knobs.
    fn alike(&self, plain: &Recorded, stages: Vec<Stage>, plans: &mut Vec<Plan>) -> Result<Alike, S::Error> {
        let rates = &self.machine.rates;
        let most = most_options(&stages);
        let mut profiles = vec![Profile::of(&plain.timeline, rates)];
        let mut peaks = vec![plain.plan.peak];
        for option in 1..most {
            let recompute = recomputed(&stages, &alike(&stages, option));
            let recorded = self.lowered(Candidate { recompute, ..plain.plan.candidate.clone() })?;
            profiles.push(Profile::of(&recorded[0].timeline, rates));
            peaks.push(recorded[0].plan.peak);
            plans.extend(recorded.into_iter().map(|recorded| recorded.plan.clone()));
        }
        Ok(Alike { stages, profiles, peaks })
    }

    /// What each option of each segment costs.
    fn estimate(&self, plain: &Recorded, alike: &Alike) -> Estimate {
        let candidate = &plain.plan.candidate;
        let repeated = candidate.accumulation as f64 / candidate.recorded().max(1) as f64;
        Estimate::new(alike, plain.plan.seconds, repeated)
    }
}

/// The choice of what a split streams.
struct WithStreams<'a> {
    /// With nothing recomputed.
    plain: &'a Recorded,
    recomputing: &'a Alike,
    /// Streaming is an option of those that can be.
    stages: Vec<Stage>,
}

impl WithStreams<'_> {
    /// All that can be is streamed in a way.
    fn all<S: Space>(
        &self,
        search: &Search<'_, S>,
        way: (StreamKeep, usize, u8),
    ) -> Result<Vec<Rc<Recorded>>, S::Error> {
        search.lowered(self.candidate(&alike(&self.stages, most_options(&self.stages)), way))
    }

    fn candidate(&self, choice: &[usize], (keep, slab_planes, percent): (StreamKeep, usize, u8)) -> Candidate {
        let settings = StreamSettings::default().with_keep(keep).with_slab_planes(slab_planes);
        let candidate = Candidate { recompute: recomputed(&self.stages, choice), ..self.plain.plan.candidate.clone() };
        candidate.with_streamed(streamed(&self.stages, choice), settings.with_cached_percent(percent))
    }

    /// What each option costs, by a recording of all that can be streamed.
    fn estimate<S: Space>(&self, search: &Search<'_, S>, all: &Recorded) -> Estimate {
        let Alike { profiles, peaks, .. } = self.recomputing;
        let profile = Profile::of(&all.timeline, &search.machine.rates);
        let with_streams = Alike {
            stages: self.stages.clone(),
            profiles: profiles.iter().cloned().chain([profile]).collect(),
            peaks: peaks.iter().copied().chain([all.plan.peak]).collect(),
        };
        search.estimate(self.plain, &with_streams)
    }

    /// Adds what is worth streaming in a way, `all` first.
    fn way<S: Space>(
        &self,
        search: &Search<'_, S>,
        way: (StreamKeep, usize, u8),
        all: Vec<Rc<Recorded>>,
        plans: &mut Vec<Plan>,
    ) -> Result<(), S::Error> {
        let Self { plain, recomputing, stages } = self;
        let estimates = [self.estimate(search, &all[0])];
        plans.extend(all.into_iter().map(|recorded| recorded.plan.clone()));
        let above = chain::smallest_peak(&search.estimate(plain, recomputing).chain);
        let mut choices = estimates[0].proposals(above, STREAM_BUDGETS);
        let mut seen = HashSet::from([alike(stages, most_options(stages))]);
        choices.retain(|choice| !streamed(stages, choice).is_empty() && seen.insert(choice.clone()));
        for choice in choices {
            if is_worth_it(&estimates, &choice, search.allocated(plans), search.least) {
                plans.extend(search.plans(self.candidate(&choice, way))?);
            }
        }
        Ok(())
    }

    /// Adds the smallest plan with neighbours that it streams as one, where there are any.
    fn joined<S: Space>(&self, search: &Search<'_, S>, plans: &mut Vec<Plan>) -> Result<(), S::Error> {
        let smallest = plans.iter().min_by_key(|plan| (plan.peak, plan.candidate.stream.len())).cloned();
        let is_streamed = |stage: &Stage, plan: &Plan| {
            stage.streamed.as_ref().is_some_and(|name| plan.candidate.stream.contains(name))
        };
        let is_joined =
            |plan: &Plan| self.stages.windows(2).any(|pair| pair.iter().all(|stage| is_streamed(stage, plan)));
        let Some(smallest) = smallest.filter(is_joined) else { return Ok(()) };
        let settings = StreamSettings::default().with_keep(LEAST.0).with_slab_planes(LEAST.1);
        let least = smallest.candidate.clone().with_streamed(smallest.candidate.stream.clone(), settings);
        plans.extend(search.plans(least)?.filter(|plan| plan.peak < smallest.peak)); // not every model joins neighbours
        Ok(())
    }
}

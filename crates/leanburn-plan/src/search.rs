//! The search for plans: every variant and micro-batch, with segments and knobs chosen for many budgets.

use std::collections::HashSet;

use leanburn_common::Bytes;

use crate::candidate::Candidate;
use crate::chain::{self, Choice};
use crate::plans::{Frontier, Machine, Plan};
use crate::profile::Profile;
use crate::space::{Class, Space, Variant};
use crate::timeline::Timeline;

/// The best plans whose changes are of class `allowed` or milder.
///
/// For each variant and micro-batch: every choice of segments where they are few, else those that dynamic programming
/// finds for a series of budgets; each of them also with [knobs](Space::knobs) as low as helps. A choice that a plan beats by
/// what is estimated of it is not recorded.
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
                None => {
                    let milder: Vec<Plan> = plans.iter().filter(|plan: &&Plan| plan.class <= *class).cloned().collect();
                    self.search(variant, *class, &milder)?
                }
            };
            plans.extend(found.iter().cloned());
            self.found[variant] = Some(found);
        }
        Ok(Frontier::of(plans))
    }

    fn search(&self, variant: usize, class: Class, known: &[Plan]) -> Result<Vec<Plan>, S::Error> {
        let search = Search { space: self.space, machine: self.machine, class };
        let splits = self.space.splits().into_iter();
        let plain = splits
            .map(|(micro_batch, accumulation)| Candidate { variant, ..Candidate::new(micro_batch, accumulation) });
        // every split as it is comes first: most of what can be recomputed in one is beaten by another
        let starts: Vec<Vec<Recorded>> = plain.map(|plain| search.lowered(plain)).collect::<Result<_, _>>()?;
        let mut plans: Vec<Plan> = starts.iter().flatten().map(|start| start.plan.clone()).collect();
        for start in &starts {
            search.split(start, known, &mut plans)?;
        }
        Ok(plans)
    }
}

/// As many choices of segments are tried one and all.
const FEW: usize = 256;
/// Budgets that dynamic programming is asked for.
const BUDGETS: u64 = 24;

/// A choice is not recorded where a plan that is no slower needs less than this share of the peak that is estimated. Of the
/// recipes `mni152-autoencoder` and `vqvae`, and of an autoencoder of one level, peaks were from 0.3 % below their estimate to 11 % above
/// it, and times from 0.4 % shorter to 1.7 % longer.
const MARGIN: f64 = 0.98;

/// The choice of segments of a variant's splits.
struct Search<'a, S> {
    space: &'a S,
    machine: &'a Machine<'a>,
    class: Class,
}

/// A plan and the timeline that it was read off.
struct Recorded {
    timeline: Timeline,
    plan: Plan,
}

/// An outermost segment and the options of running it.
struct Stage {
    /// For each option the segments that are recomputed.
    options: Vec<Vec<String>>,
}

impl<S: Space> Search<'_, S> {
    /// Adds what is worth recomputing of one split; `start` is the split with nothing recomputed, knobs from high to low.
    fn split(&self, start: &[Recorded], known: &[Plan], plans: &mut Vec<Plan>) -> Result<(), S::Error> {
        let (highest, lowest) = (&start[0], &start[start.len() - 1]);
        let stages = stages(&highest.timeline);
        let mut estimates = vec![self.estimate(highest, &stages, plans)?];
        if start.len() > 1 {
            // where knobs are low other segments may be worth keeping
            estimates.push(self.estimate(lowest, &stages, plans)?);
        }
        let mut choices: Vec<Vec<usize>> = estimates.iter().flat_map(Estimate::proposals).collect();
        let assignments: usize = stages.iter().map(|stage| stage.options.len()).product();
        if assignments <= FEW {
            choices.extend(every(&stages));
        }
        let mut seen: HashSet<Vec<usize>> = estimates[0].alike.iter().cloned().collect(); // recorded already
        choices.retain(|choice| seen.insert(choice.clone()));
        for choice in &choices {
            let least = estimates.iter().map(|estimate| estimate.peak(choice)).fold(f64::INFINITY, f64::min);
            let seconds = estimates.iter().map(|estimate| estimate.seconds(choice)).fold(f64::INFINITY, f64::min);
            let beats = |plan: &Plan| plan.peak.get() as f64 <= MARGIN * least && plan.seconds <= seconds;
            if !known.iter().chain(plans.iter()).any(beats) {
                let candidate = Candidate { recompute: recomputed(&stages, choice), ..highest.plan.candidate.clone() };
                plans.extend(self.lowered(candidate)?.into_iter().map(|recorded| recorded.plan));
            }
        }
        Ok(())
    }

    /// A candidate, then the same with a knob one value lower, as long as one helps.
    fn lowered(&self, candidate: Candidate) -> Result<Vec<Recorded>, S::Error> {
        let knobs = self.space.knobs(&candidate);
        let mut recorded = vec![self.record(candidate)?];
        let lower = |last: &Recorded| knobs.iter().find_map(|knob| knob.lower(&last.plan.candidate, &last.timeline));
        while let Some(candidate) = recorded.last().and_then(lower) {
            recorded.push(self.record(candidate)?);
        }
        Ok(recorded)
    }

    /// A recording's timeline, and the plan as it shows.
    fn record(&self, candidate: Candidate) -> Result<Recorded, S::Error> {
        let timeline = self.space.record(&candidate)?.timeline(self.machine.memory);
        let seconds = self.machine.rates.seconds(&timeline, candidate.accumulation, candidate.recorded());
        let other_bytes = self.machine.other_bytes + self.space.other_bytes(&candidate);
        let peak = self.machine.memory.needed(&timeline) + other_bytes;
        Ok(Recorded { timeline, plan: Plan { class: self.class, peak, seconds, candidate } })
    }

    /// What each option of each segment costs, from recordings in which all segments run alike; these are plans too, and with lower knobs.
    fn estimate(&self, plain: &Recorded, stages: &[Stage], plans: &mut Vec<Plan>) -> Result<Estimate, S::Error> {
        let rates = &self.machine.rates;
        let most = stages.iter().map(|stage| stage.options.len()).max().unwrap_or(1);
        let mut profiles = vec![Profile::of(&plain.timeline, rates)];
        let mut peaks = vec![plain.plan.peak];
        for option in 1..most {
            let recompute = recomputed(stages, &alike(stages, option));
            let recorded = self.lowered(Candidate { recompute, ..plain.plan.candidate.clone() })?;
            profiles.push(Profile::of(&recorded[0].timeline, rates));
            peaks.push(recorded[0].plan.peak);
            plans.extend(recorded.into_iter().map(|recorded| recorded.plan));
        }
        let candidate = &plain.plan.candidate;
        let repeated = candidate.accumulation as f64 / candidate.recorded().max(1) as f64;
        Ok(Estimate::new(&profiles, stages, &peaks, plain.plan.seconds, repeated))
    }
}

/// What choices of segments would need and take, without recording them: the sums and the highest of what each segment has shown.
struct Estimate {
    chain: Vec<Vec<Choice>>,
    /// What a plan's peak is above that of the chain, at least.
    above: f64,
    /// Seconds with nothing recomputed.
    plain: f64,
    /// How often what was recorded runs in a step.
    repeated: f64,
    /// The choices that it was read off: all segments kept, or run alike.
    alike: Vec<Vec<usize>>,
}

impl Estimate {
    fn new(profiles: &[Profile], stages: &[Stage], peaks: &[Bytes], plain: f64, repeated: f64) -> Self {
        let outside = profiles.iter().map(|profile| profile.outside).min().unwrap_or(0);
        let mut chain: Vec<Vec<Choice>> = Vec::new();
        for (stage, (name, _)) in stages.iter().zip(&profiles[0].segments) {
            let options = 0..stage.options.len();
            chain.push(options.filter_map(|option| profiles[option].choice(name)).collect());
        }
        chain.push(vec![Choice { saved: 0, own: outside, seconds: 0.0 }]);
        let alike: Vec<Vec<usize>> = (0..profiles.len()).map(|option| alike(stages, option)).collect();
        let above = alike.iter().zip(peaks).map(|(choice, peak)| peak.get() as f64 / peak_of(&chain, choice) as f64);
        let above = above.fold(f64::INFINITY, f64::min);
        Self { chain, above, plain, repeated, alike }
    }

    fn peak(&self, choice: &[usize]) -> f64 {
        peak_of(&self.chain, choice) as f64 * self.above
    }

    fn seconds(&self, choice: &[usize]) -> f64 {
        let more = |(stage, &option): (&Vec<Choice>, &usize)| stage[option].seconds - stage[0].seconds;
        self.plain + self.repeated * self.chain.iter().zip(choice).map(more).sum::<f64>()
    }

    /// The fastest choices by dynamic programming for budgets from the smallest peak to the largest.
    fn proposals(&self) -> Vec<Vec<usize>> {
        let (low, high) = (chain::smallest_peak(&self.chain), chain::peak(&self.chain, &vec![0; self.chain.len()]));
        let budgets = (0..=BUDGETS).map(|index| low + (high.max(low) - low) / BUDGETS * index);
        let found = budgets.filter_map(|budget| chain::fastest(&self.chain, budget));
        let without_outside = |mut choices: Vec<usize>| {
            choices.pop();
            choices
        };
        found.map(without_outside).collect()
    }
}

/// The peak of a choice, what is outside of all segments included.
fn peak_of(chain: &[Vec<Choice>], choice: &[usize]) -> u64 {
    chain::peak(chain, &[choice, &[0]].concat())
}

/// All segments run by one option, or their last.
fn alike(stages: &[Stage], option: usize) -> Vec<usize> {
    stages.iter().map(|stage| option.min(stage.options.len() - 1)).collect()
}

/// The segments that a choice recomputes.
fn recomputed(stages: &[Stage], choice: &[usize]) -> Vec<String> {
    stages.iter().zip(choice).flat_map(|(stage, &option)| stage.options[option].iter().cloned()).collect()
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

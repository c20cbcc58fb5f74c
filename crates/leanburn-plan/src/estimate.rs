//! What choices of segments would need and take: options of each segment, and what recordings have shown of them.

use leanburn_common::Bytes;

use crate::chain::{self, Choice};
use crate::plans::Plan;
use crate::profile::Profile;
use crate::timeline::Timeline;

/// A choice is not recorded where a plan that is no slower needs less than this share of the peak that is estimated. Of the
/// recipes `mni152-autoencoder` and `vqvae`, and of an autoencoder of one level, peaks were from 0.3 % below their estimate to 11 % above
/// it, and times from 0.4 % shorter to 1.7 % longer.
const MARGIN: f64 = 0.98;
/// What an estimated time is taken by, so that a plan is not missed whose time is shorter than its estimate.
const SHORTER: f64 = 0.99;

/// An outermost segment and the options of running it.
#[derive(Clone)]
pub(crate) struct Stage {
    /// For each option the segments that are recomputed.
    pub options: Vec<Vec<String>>,
    /// The segment, where streaming it is one more option, the last.
    pub streamed: Option<String>,
}

/// Recordings of one split in which all segments run alike, an option in each.
pub(crate) struct Alike {
    pub stages: Vec<Stage>,
    pub profiles: Vec<Profile>,
    pub peaks: Vec<Bytes>,
}

/// What choices of segments would need and take, without recording them: the sums and the highest of what each segment has shown.
pub(crate) struct Estimate {
    pub chain: Vec<Vec<Choice>>,
    /// What a plan's peak is above that of the chain, at least.
    above: f64,
    /// Seconds with nothing recomputed.
    plain: f64,
    /// How often what was recorded runs in a step.
    repeated: f64,
    /// The choices that it was read off: all segments kept, or run alike.
    pub alike: Vec<Vec<usize>>,
}

impl Estimate {
    pub(crate) fn new(Alike { stages, profiles, peaks }: &Alike, plain: f64, repeated: f64) -> Self {
        let outside = profiles.iter().map(|profile| profile.outside).min().unwrap_or(0);
        let mut chain: Vec<Vec<Choice>> = Vec::new();
        for (stage, (name, _)) in stages.iter().zip(&profiles[0].segments) {
            // the recording with streams is the last
            let streamed = stage.streamed.as_ref().and(profiles.last());
            let options = profiles[..stage.options.len()].iter().chain(streamed);
            chain.push(options.filter_map(|profile| profile.choice(name)).collect());
        }
        chain.push(vec![Choice { saved: 0, own: outside, seconds: 0.0 }]);
        let alike: Vec<Vec<usize>> = (0..profiles.len()).map(|option| alike(stages, option)).collect();
        let above = alike.iter().zip(peaks).map(|(choice, peak)| peak.get() as f64 / peak_of(&chain, choice) as f64);
        let above = above.fold(f64::INFINITY, f64::min);
        Self { chain, above, plain, repeated, alike }
    }

    pub(crate) fn peak(&self, choice: &[usize]) -> f64 {
        peak_of(&self.chain, choice) as f64 * self.above
    }

    pub(crate) fn seconds(&self, choice: &[usize]) -> f64 {
        let more = |(stage, &option): (&Vec<Choice>, &usize)| stage[option].seconds - stage[0].seconds;
        self.plain + self.repeated * self.chain.iter().zip(choice).map(more).sum::<f64>()
    }

    /// What no choice's peak is below.
    pub(crate) fn smallest_peak(&self) -> f64 {
        MARGIN * chain::smallest_peak(&self.chain) as f64 * self.above
    }

    /// The fastest choice of those with the smallest peak.
    pub(crate) fn smallest(&self) -> Vec<usize> {
        self.proposals(0, 1).swap_remove(0)
    }

    /// What no choice within a budget takes less time than, even if streaming a segment took no memory; infinite if there is none.
    pub(crate) fn shortest(&self, stages: &[Stage], budget: Bytes) -> f64 {
        let mut chain = self.chain.clone();
        for (options, stage) in chain.iter_mut().zip(stages) {
            let saved = options.iter().map(|option| option.saved).min();
            if let (Some(streamed), Some(_)) = (options.last_mut(), &stage.streamed) {
                *streamed = Choice { saved: saved.unwrap_or(0), own: 0, ..*streamed };
            }
        }
        let budget = budget.get() as f64 / (MARGIN * self.above);
        chain::fastest(&chain, budget as u64).map_or(f64::INFINITY, |choice| self.seconds(&choice))
    }

    /// The peak with nothing recomputed.
    pub(crate) fn kept(&self) -> u64 {
        chain::peak(&self.chain, &vec![0; self.chain.len()])
    }

    /// The fastest choices by dynamic programming for budgets from the smallest peak to `high`.
    pub(crate) fn proposals(&self, high: u64, budgets: u64) -> Vec<Vec<usize>> {
        let low = chain::smallest_peak(&self.chain);
        let budgets = (0..=budgets).map(|index| low + (high.max(low) - low) / budgets * index);
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

/// Whether no plan beats what is estimated of a choice, for budgets of `budget` and more.
pub(crate) fn is_worth_it<'p>(
    estimates: &[Estimate],
    choice: &[usize],
    plans: impl IntoIterator<Item = &'p Plan>,
    budget: Bytes,
) -> bool {
    let least = estimates.iter().map(|estimate| estimate.peak(choice)).fold(f64::INFINITY, f64::min);
    let seconds = estimates.iter().map(|estimate| estimate.seconds(choice)).fold(f64::INFINITY, f64::min);
    let is_smaller = |plan: &Plan| plan.peak.get() as f64 <= MARGIN * least && plan.seconds <= seconds;
    let is_within = |plan: &Plan| plan.peak <= budget && plan.seconds <= SHORTER * seconds;
    !plans.into_iter().any(|plan| is_smaller(plan) || is_within(plan))
}

pub(crate) fn most_options(stages: &[Stage]) -> usize {
    stages.iter().map(|stage| stage.options.len()).max().unwrap_or(1)
}

/// All segments run by one option, or their last; behind all options those that can be streamed are, and the others recomputed.
pub(crate) fn alike(stages: &[Stage], option: usize) -> Vec<usize> {
    let of = |stage: &Stage| match (option < most_options(stages), &stage.streamed) {
        (true, _) => option.min(stage.options.len() - 1),
        (false, Some(_)) => stage.options.len(),
        (false, None) => 1,
    };
    stages.iter().map(of).collect()
}

/// The segments that a choice recomputes.
pub(crate) fn recomputed(stages: &[Stage], choice: &[usize]) -> Vec<String> {
    let of = |(stage, option): (&Stage, &usize)| stage.options.get(*option).cloned().unwrap_or_default();
    stages.iter().zip(choice).flat_map(of).collect()
}

/// The segments that a choice streams.
pub(crate) fn streamed(stages: &[Stage], choice: &[usize]) -> Vec<String> {
    let of = |(stage, option): (&Stage, &usize)| stage.streamed.clone().filter(|_| *option == stage.options.len());
    stages.iter().zip(choice).filter_map(of).collect()
}

/// The stages, with streaming as an option of those that can be.
pub(crate) fn streamable(timeline: &Timeline, stages: &[Stage]) -> Vec<Stage> {
    let tops = (0..timeline.segments.len()).filter(|&index| timeline.parents[index].is_none());
    let name = |index: usize| timeline.streamable[index].then(|| timeline.segments[index].clone());
    stages.iter().zip(tops).map(|(stage, top)| Stage { streamed: name(top), ..stage.clone() }).collect()
}

/// The outermost segments, each kept, recomputed, and where it has segments inside: those recomputed, or both.
pub(crate) fn stages(timeline: &Timeline) -> Vec<Stage> {
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
        Stage { options, streamed: None }
    };
    tops.map(stage).collect()
}

/// Every choice for each stage.
pub(crate) fn every(stages: &[Stage]) -> Vec<Vec<usize>> {
    stages.iter().fold(vec![Vec::new()], |beginnings, stage| {
        let longer = |beginning: &Vec<usize>| {
            let options = 0..stage.options.len();
            options.map(|option| [beginning.as_slice(), &[option]].concat()).collect::<Vec<_>>()
        };
        beginnings.iter().flat_map(longer).collect()
    })
}

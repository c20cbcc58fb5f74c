//! One level less memory for a training whose step did not fit.

use leanburn_common::Bytes;
use leanburn_plan::{Candidate, Class, Knob, Machine, Plan, Recording, Space, Timeline, Variant, frontier};

use crate::config::Config;
use crate::error::{Result, SystemError};
use crate::planning::{ConfigSpace, planner_of};

/// What the planner has to say to a step that did not fit.
#[derive(Debug)]
#[non_exhaustive]
pub struct StepDown {
    /// The operation at the peak of the plan, and the segment that it is in.
    pub peak: Option<String>,
    /// The configuration with the next smaller peak and the same mathematics, and what is changed; none if there is none.
    pub config: Option<(Config, String)>,
}

impl StepDown {
    /// The next plan below the one that `config` comes to: the same micro-batches, more of the segments recomputed. Plans are
    /// ranked by the rates of the device that the configuration names.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub fn of(config: &Config, name: &str) -> Result<Self> {
        let planner = planner_of(&config.device.name, None, None)?;
        let memory = planner.memory_model();
        let space = ConfigSpace::new(config, name, &planner, || config.extent_of_data(name))?;
        let now = space.configured();
        let timeline = space.record_with(&now, now.recorded())?.timeline(memory);
        let planned = memory.needed(&timeline) + space.other_bytes(&now);

        let machine = Machine { other_bytes: Bytes(0), ..planner.machine() };
        let plans = frontier(&SameBatches(&space), &machine, Class::Lossless)?.plans;
        let next = plans.into_iter().rev().find(|plan| plan.peak < planned);
        let lower = next.map(|plan| {
            let (from, to) = (planned, plan.peak);
            (space.config(&plan.candidate), format!("{}, planned {from} -> {to}", change(&now, &plan)))
        });
        Ok(Self { peak: peak_of(&timeline), config: lower })
    }
}

/// The plans with the micro-batches as configured. Among all plans, those that recompute at a large micro-batch may be missing:
/// a smaller micro-batch beats them in both memory and time.
struct SameBatches<'a>(&'a ConfigSpace);

impl Space for SameBatches<'_> {
    type Error = SystemError;

    fn variants(&self) -> Vec<Variant> {
        self.0.variants()
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        let Candidate { micro_batch, accumulation, .. } = self.0.configured();
        vec![(micro_batch, accumulation)]
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording> {
        self.0.record(candidate)
    }

    fn knobs(&self, candidate: &Candidate) -> Vec<Knob> {
        self.0.knobs(candidate)
    }

    fn other_bytes(&self, candidate: &Candidate) -> Bytes {
        self.0.other_bytes(candidate)
    }
}

/// What a plan does otherwise, in words.
fn change(now: &Candidate, plan: &Plan) -> String {
    let recompute = &plan.candidate.recompute;
    let more = recompute.len().saturating_sub(3);
    let names = recompute.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let recomputed = (!recompute.is_empty()).then(|| match more {
        0 => format!("recompute {names}"),
        _ => format!("recompute {names} and {more} more"),
    });
    let knobs = plan.candidate.knobs.iter().filter(|(name, value)| now.knob(name) != Some(**value));
    let knobs = knobs.map(|(name, value)| format!("{name} = {value}"));
    recomputed.into_iter().chain(knobs).collect::<Vec<_>>().join(", ")
}

fn peak_of(timeline: &Timeline) -> Option<String> {
    let event = timeline.events.get(timeline.peak_index())?;
    let segment = event.segment.map(|segment| format!(" of {}", timeline.segments[segment]));
    Some(format!("{}{} ({})", event.operation, segment.unwrap_or_default(), event.phase))
}

#[cfg(test)]
mod tests {
    use leanburn_train::planning::Planner;

    use super::*;

    const TINY: &str = "\
autoencoder: {num_channels: [8], norm_num_groups: 8, num_res_blocks: 1, training: {batch_size: 4}}
data: {phantom: {count: 2, shape: 32}, patch_size: 32}
device: {name: flex}
";

    #[test]
    fn it_goes_down_to_the_smallest_plan_of_the_same_micro_batch() {
        let mut config = Config::parse(TINY, "tiny", &[]).unwrap();
        let planner = Planner::cpu();
        let space = ConfigSpace::new(&config, "tiny", &planner, || unreachable!()).unwrap();
        let machine = planner.machine();
        let smallest = frontier(&SameBatches(&space), &machine, Class::Lossless).unwrap().plans.remove(0);
        assert_eq!((smallest.candidate.micro_batch, smallest.candidate.accumulation), (4, 1));
        let among_all = frontier(&space, &machine, Class::Lossless).unwrap();
        assert!(!among_all.plans.contains(&smallest), "else the test shows nothing");

        let mut steps = 0;
        while let Some((lower, what)) = StepDown::of(&config, "tiny").unwrap().config {
            assert!(what.starts_with("recompute ") && what.contains(" -> "), "{what}");
            assert_eq!((lower.training().batch_size, lower.training().gradient_accumulation_steps), (4, 1));
            (config, steps) = (lower, steps + 1);
            assert!(steps < 20, "each step is lower than the one before");
        }
        assert_eq!(config.training().recompute.patterns(), smallest.candidate.recompute);
    }

    #[test]
    fn a_change_is_named_by_what_it_sets() {
        let candidate = |recompute: &[&str], block| {
            let recompute = recompute.iter().map(ToString::to_string).collect();
            Candidate { recompute, ..Candidate::new(1, 1) }.with_knob("attention_block", block)
        };
        let named = |recompute: &[&str], block| {
            let plan =
                Plan { candidate: candidate(recompute, block), class: Class::Lossless, peak: Bytes(0), seconds: 0.0 };
            change(&candidate(&[], None), &plan)
        };
        assert_eq!(named(&["a", "b"], None), "recompute a, b");
        assert_eq!(named(&["a", "b", "c", "d"], None), "recompute a, b, c and 1 more");
        assert_eq!(named(&[], Some(32)), "attention_block = 32");
        assert_eq!(named(&["a"], Some(32)), "recompute a, attention_block = 32");
    }
}

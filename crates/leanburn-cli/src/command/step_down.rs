//! One notch less memory for a training whose step did not fit.

use bytesize::ByteSize;
use leanburn_plan::{Candidate, Class, Machine, Timeline, frontier};

use crate::config::Config;
use crate::error::Result;
use crate::planning::{ConfigSpace, memory_of, rates_for};

/// What the planner has to say to a step that did not fit.
#[derive(Debug)]
pub(super) struct StepDown {
    /// The operation at the peak of the plan, and the segment that it is in.
    pub peak: Option<String>,
    /// The configuration with the next smaller peak and the same mathematics, and what is changed; none if there is none.
    pub config: Option<(Config, String)>,
}

impl StepDown {
    /// The next plan below the one that `config` comes to: the same micro-batches, more of the segments recomputed.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub fn of(config: &Config, source: &str) -> Result<Self> {
        let (target, memory) = memory_of(&config.device.name)?;
        let space = ConfigSpace::new(config, source, target, || super::plan::extent_of_data(config))?;
        let now = space.configured();
        let timeline = space.record_with(&now, now.recorded())?.timeline(memory);
        let planned = leanburn_plan::bound(timeline.peak());

        let machine = Machine { memory, rates: rates_for(None), beside: 0 };
        let plans = frontier(&space, &machine, Class::Lossless)?.plans;
        let is_lower = |candidate: &Candidate, peak: u64| {
            candidate.micro_batch == now.micro_batch && candidate.accumulation == now.accumulation && peak < planned
        };
        let next = plans.into_iter().rev().find(|plan| is_lower(&plan.candidate, plan.peak));
        let lower = next.map(|plan| {
            let segments = &plan.candidate.recompute;
            let count = segments.len();
            let names = segments.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = if count > 3 { format!(" and {} more", count - 3) } else { String::new() };
            let [from, to] = [planned, plan.peak].map(ByteSize::b);
            (space.config(&plan.candidate), format!("recompute {names}{more}, planned {from} -> {to}"))
        });
        Ok(Self { peak: peak_of(&timeline), config: lower })
    }
}

fn peak_of(timeline: &Timeline) -> Option<String> {
    let moment = timeline.moments.get(timeline.peak_index())?;
    let segment = moment.segment.map(|segment| format!(" of {}", timeline.segments[segment]));
    Some(format!("{}{} ({})", moment.operation, segment.unwrap_or_default(), moment.phase))
}

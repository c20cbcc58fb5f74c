//! Less memory for a training whose step did not fit.

use std::collections::BTreeSet;

use leanburn_common::Bytes;
use leanburn_plan::{Candidate, Class, Machine, MemoryModel, Plan, Space, Timeline, frontier};

use crate::config::Config;
use crate::data::DataSize;
use crate::error::Result;
use crate::planning::{ConfigSpace, planner_of};

/// What the planner has to say to a step that did not fit.
#[derive(Debug)]
#[non_exhaustive]
pub struct StepDown {
    /// The operation at the peak of the plan, and the segment that it is in.
    pub peak: Option<String>,
    /// The configuration with a smaller peak and the same mathematics, and what is changed; none if there is none.
    pub config: Option<(Config, String)>,
}

impl StepDown {
    /// The fastest plan below the one that `config` comes to, and within `limit` where there is one: other micro-batches of the same
    /// items, segments that are recomputed. Where that one did not fit either, plans are a tenth smaller each time; the last restart
    /// takes the smallest. Micro-batches are dealt out to all ranks. Plans are ranked by the rates of the device that the configuration names.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub(super) fn of(
        config: &Config,
        name: &str,
        data: DataSize,
        limit: Option<Bytes>,
        (restarts_left, ranks): (usize, usize),
    ) -> Result<Self> {
        let planner = planner_of(&config.device.name, None, None)?;
        let memory = planner.memory_model();
        let space = ConfigSpace::new(config, name, &planner, || Ok(data))?;
        // Where ranks hold a volume together, plans are of one of them.
        let shares = ranks > 1 && space.volume_ranks() > 1;
        let (space, ranks) = if shares { (space.of_ranks(ranks as u64), 1) } else { (space, ranks) };
        let now = space.configured();
        let timeline = space.record_with(&now, now.recorded())?.timeline(memory);
        let peak = peak_of(&timeline);
        let planned = memory.needed(&timeline) + space.other_bytes(&now);
        if restarts_left == 0 {
            return Ok(Self { peak, config: None });
        }
        let machine = Machine { other_bytes: Bytes(0), ..planner.machine() };
        let mut plans = match shares {
            true => smaller_shares(&space, &now, memory)?,
            false => frontier(&space, &machine, Class::Lossless)?.plans,
        };
        plans.retain(|plan| plan.peak < planned && plan.candidate.accumulation.is_multiple_of(ranks as u64));
        let ceiling = match (limit, restarts_left) {
            (_, 1) => Bytes(0), // which leaves the smallest
            (Some(limit), FIRST) => limit,
            (limit, _) => planned.share(0.9).min(limit.unwrap_or(planned)),
        };
        let fastest = plans.iter().rfind(|plan| plan.peak <= ceiling).or(plans.first());
        let lower = fastest.map(|plan| {
            let (from, to) = (planned, plan.peak);
            (space.config(&plan.candidate), format!("{}, planned {from} -> {to}", change(&now, plan)))
        });
        Ok(Self { peak, config: lower })
    }
}

/// The same segments shared, in smaller micro-batches and with the others recomputed; the smallest first. What a share takes is not estimated
/// from what the whole takes, so that each is recorded.
fn smaller_shares(space: &ConfigSpace, now: &Candidate, memory: &dyn MemoryModel) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for (micro_batch, accumulation) in space.splits() {
        for recompute in [now.recompute.clone(), vec!["*".to_string()]] {
            let candidate = Candidate { micro_batch, accumulation, recompute, ..now.clone() };
            let timeline = space.record(&candidate)?.timeline(memory);
            let peak = memory.needed(&timeline) + space.other_bytes(&candidate);
            plans.push(Plan { candidate, class: Class::Lossless, peak, largest: timeline.largest(), seconds: 0.0 });
        }
    }
    plans.sort_by_key(|plan| plan.peak);
    Ok(plans)
}

/// The restarts that are left when a run steps down for the first time.
pub(super) const FIRST: usize = 3;

/// What a plan does otherwise, in words.
fn change(now: &Candidate, plan: &Plan) -> String {
    let then = &plan.candidate;
    let split = |candidate: &Candidate| format!("{} x {}", candidate.micro_batch, candidate.accumulation);
    let batch = (split(now) != split(then)).then(|| format!("batch {} -> {}", split(now), split(then)));
    let more = then.recompute.len().saturating_sub(3);
    let names = then.recompute.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let recomputed = (now.recompute != then.recompute).then(|| match (names.is_empty(), more) {
        (true, _) => "recompute nothing".to_string(),
        (_, 0) => format!("recompute {names}"),
        _ => format!("recompute {names} and {more} more"),
    });
    let knobs: BTreeSet<&String> = now.knobs.keys().chain(then.knobs.keys()).collect();
    let knobs = knobs.into_iter().filter(|name| now.knob(name) != then.knob(name)).map(|name| match then.knob(name) {
        Some(value) => format!("{name} = {value}"),
        None => format!("{name} as large as is fastest"),
    });
    let streams = |candidate: &Candidate| (candidate.stream.clone(), candidate.stream_settings);
    let streamed = (streams(now) != streams(then)).then(|| match then.stream.is_empty() {
        true => "stream nothing".to_string(),
        false => format!("stream {} in slabs of {}", then.stream.join(", "), then.stream_settings.slab_planes),
    });
    batch.into_iter().chain(recomputed).chain(streamed).chain(knobs).collect::<Vec<_>>().join(", ")
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

    /// The step-downs of a run whose every attempt fails.
    fn all_the_way(text: &str, limit: Option<Bytes>, ranks: usize) -> Vec<(Config, String)> {
        let mut config = Config::parse(text, "tiny", &[]).unwrap();
        let mut steps = Vec::new();
        for restarts_left in (0..=FIRST).rev() {
            let size = config.data_size("tiny").unwrap();
            let Some((lower, what)) =
                StepDown::of(&config, "tiny", size, limit, (restarts_left, ranks)).unwrap().config
            else {
                return steps;
            };
            steps.push((lower.clone(), what));
            config = lower;
        }
        panic!("a fourth restart: {steps:?}")
    }

    #[test]
    fn it_takes_the_fastest_plan_within_the_limit_and_ends_with_the_smallest() {
        let config = Config::parse(TINY, "tiny", &[]).unwrap();
        let planner = Planner::cpu();
        let space = ConfigSpace::new(&config, "tiny", &planner, || config.data_size("tiny")).unwrap();
        let plans = frontier(&space, &planner.machine(), Class::Lossless).unwrap().plans;
        let is_split = |plan: &&Plan| plan.candidate.micro_batch < 4;
        assert!(plans.len() > 2 && plans.iter().any(|plan| is_split(&plan)), "else the test shows nothing: {plans:?}");
        let candidate = |config: &Config| {
            ConfigSpace::new(config, "tiny", &planner, || Ok(DataSize::default())).unwrap().configured()
        };

        let expected = plans.iter().rfind(is_split).unwrap();
        let steps = all_the_way(TINY, Some(expected.peak), 1);
        assert_eq!(candidate(&steps[0].0), expected.candidate);
        assert!(steps[0].1.starts_with("batch 4 x 1 -> ") && steps[0].1.contains(" -> "), "{}", steps[0].1);
        let last = |steps: &[(Config, String)]| candidate(&steps.last().unwrap().0);
        assert_eq!(last(&steps), plans[0].candidate);

        let unlimited = all_the_way(TINY, None, 1);
        assert!(unlimited.len() <= FIRST && last(&unlimited) == plans[0].candidate);
        for (lower, what) in all_the_way(TINY, None, 4) {
            assert!(candidate(&lower).accumulation.is_multiple_of(4), "{what}: each of 4 ranks takes as many");
        }
        let nothing_helps = all_the_way(TINY, Some(Bytes(1)), 1);
        assert_eq!((nothing_helps.len(), last(&nothing_helps)), (1, plans[0].candidate.clone()));
    }

    #[test]
    fn ranks_that_share_volumes_keep_their_items() {
        let shared = TINY.replace("[8]", "[8, 8]").replace(
            "batch_size: 4",
            "batch_size: 2, gradient_accumulation_steps: 2, volume_ranks: 2, stream: [encoder.level_0, decoder.level_0]",
        );
        let steps = all_the_way(&shared, None, 4);
        assert!(!steps.is_empty());
        for (lower, what) in steps {
            let training = lower.training();
            assert!(training.volume_ranks == 2 && !training.stream.patterns().is_empty(), "{what}");
            assert_eq!(
                training.batch_size * training.gradient_accumulation_steps,
                4,
                "{what}: two groups have all items"
            );
            assert!(training.gradient_accumulation_steps.is_multiple_of(2), "{what}: each group takes as many");
        }
    }

    #[test]
    fn a_change_is_named_by_what_it_sets() {
        let candidate = |split: (usize, u64), recompute: &[&str], block| {
            let recompute = recompute.iter().map(ToString::to_string).collect();
            Candidate { recompute, ..Candidate::new(split.0, split.1) }.with_knob("attention_block", block)
        };
        let plan = |candidate| {
            let [peak, largest] = [Bytes(0); 2];
            Plan { candidate, class: Class::Lossless, peak, largest, seconds: 0.0 }
        };
        let named = |split, recompute: &[&str], block| {
            change(&candidate((2, 1), &[], Some(64)), &plan(candidate(split, recompute, block)))
        };
        assert_eq!(named((2, 1), &["a", "b"], Some(64)), "recompute a, b");
        assert_eq!(
            named((1, 2), &["a", "b", "c", "d"], Some(64)),
            "batch 2 x 1 -> 1 x 2, recompute a, b, c and 1 more"
        );
        assert_eq!(named((2, 1), &[], Some(32)), "attention_block = 32");
        assert_eq!(named((2, 1), &["a"], None), "recompute a, attention_block as large as is fastest");
        let back = plan(candidate((1, 2), &[], None));
        assert_eq!(change(&candidate((2, 1), &["a"], None), &back), "batch 2 x 1 -> 1 x 2, recompute nothing");
    }
}

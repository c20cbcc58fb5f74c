//! What would lower a step's peak, each tried on the recording device.

use leanburn_common::Bytes;
use leanburn_plan::{Candidate, Class, Space};
use leanburn_systems::Recompute;
use leanburn_systems::planning::ConfigSpace;
use leanburn_train::planning::Planner;

use crate::report::Advice;

/// The single changes that lower the peak, lossless ones first, with what each saves.
pub(super) fn advice(space: &ConfigSpace, candidate: &Candidate, planner: &Planner, peak: Bytes) -> Vec<Advice> {
    let mut tried: Vec<(Class, String, String, Candidate)> = Vec::new();
    let all = Recompute::all().patterns().to_vec();
    if candidate.recompute != all {
        let change = format!("{}.training.use_gradient_checkpointing = true", space.system());
        let all = Candidate { recompute: all, ..candidate.clone() };
        tried.push((Class::Lossless, change, "one more forward of each segment".into(), all));
    }
    if candidate.micro_batch > 1 {
        let accumulation = candidate.accumulation * candidate.micro_batch as u64;
        let change = format!("batch_size = 1, gradient_accumulation_steps = {accumulation}");
        let split = Candidate { micro_batch: 1, accumulation, ..candidate.clone() };
        tried.push((Class::Lossless, change, "the same step in smaller pieces".into(), split));
    }
    for knob in space.knobs(candidate) {
        let Some(smallest) = knob.values.last().copied() else { continue };
        let change = format!("{}.training.{} = {smallest}", space.system(), knob.name);
        let lowest = candidate.clone().with_knob(knob.name, Some(smallest));
        tried.push((Class::Lossless, change, "the same in smaller pieces, which takes longer".into(), lowest));
    }
    for (index, variant) in space.variants().into_iter().enumerate().skip(1) {
        let changed = Candidate { variant: index, ..candidate.clone() };
        tried.push((variant.class, variant.change, variant.cost, changed));
    }
    let lowered = tried.into_iter().filter_map(|(class, change, cost, changed)| {
        let lower = space.record(&changed).ok()?.timeline(planner.memory_model()).peak();
        let saved = peak.saturating_sub(lower);
        (saved > Bytes(0)).then(|| Advice { class, text: format!("{change} saves {saved} ({cost})") })
    });
    lowered.collect()
}

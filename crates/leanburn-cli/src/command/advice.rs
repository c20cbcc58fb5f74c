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
        let split = Candidate { micro_batch: 1, accumulation, ..candidate.clone() };
        let of_all = space.config(&split).training().gradient_accumulation_steps; // of all processes together
        let change = format!("batch_size = 1, gradient_accumulation_steps = {of_all}");
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

#[cfg(test)]
mod tests {
    use leanburn_systems::Config;

    use super::*;

    #[test]
    fn micro_batches_are_those_of_all_processes_together() {
        let text = "autoencoder: {num_channels: [8], norm_num_groups: 8, training: {batch_size: 2, gradient_accumulation_steps: 8}}\n\
                    data: {phantom: {count: 2, shape: 16}, patch_size: 16}\ndevice: {name: flex}\n";
        let (config, planner) = (Config::parse(text, "test", &[]).unwrap(), Planner::cpu());
        let space = ConfigSpace::new(&config, "test", &planner, || config.data_size("test")).unwrap().of_ranks(4);
        let candidate = space.configured();
        let peak = space.record(&candidate).unwrap().timeline(planner.memory_model()).peak();
        let advice: Vec<String> =
            advice(&space, &candidate, &planner, peak).into_iter().map(|advice| advice.text).collect();
        let split = "batch_size = 1, gradient_accumulation_steps = 16 saves";
        assert!(advice.iter().any(|text| text.starts_with(split)), "{advice:#?}");
    }
}

//! What would lower a step's peak, each tried on the recording device.

use bytesize::ByteSize;
use leanburn_plan::{Candidate, Class, Space};

use crate::planning::{ATTENTION_BLOCK, Budget, ConfigSpace, SMALLEST_BLOCK};
use crate::report::Advice;

/// The single changes that lower the peak, lossless ones first, with what each saves.
pub(super) fn advice(space: &ConfigSpace, candidate: &Candidate, budget: &Budget, peak: u64) -> Vec<Advice> {
    let mut tried: Vec<(Class, String, String, Candidate)> = Vec::new();
    if candidate.recompute != ["*"] {
        let change = format!("{}.training.use_gradient_checkpointing = true", space.system());
        let all = Candidate { recompute: vec!["*".into()], ..candidate.clone() };
        tried.push((Class::Lossless, change, "one more forward of each segment".into(), all));
    }
    if candidate.micro_batch > 1 {
        let accumulation = candidate.accumulation * candidate.micro_batch as u64;
        let change = format!("batch_size = 1, gradient_accumulation_steps = {accumulation}");
        let split = Candidate { micro_batch: 1, accumulation, ..candidate.clone() };
        tried.push((Class::Lossless, change, "the same step in smaller pieces".into(), split));
    }
    if space.attention_block(candidate).is_some_and(|block| block > SMALLEST_BLOCK) {
        let change = format!("autoencoder.training.attention_block = {SMALLEST_BLOCK}");
        let smallest = candidate.clone().with_knob(ATTENTION_BLOCK, Some(SMALLEST_BLOCK));
        tried.push((Class::Lossless, change, "keys and values are read more often".into(), smallest));
    }
    for (index, variant) in space.variants().into_iter().enumerate().skip(1) {
        let changed = Candidate { variant: index, ..candidate.clone() };
        tried.push((variant.class, variant.change, variant.cost, changed));
    }
    let lowered = tried.into_iter().filter_map(|(class, change, cost, changed)| {
        let lower = space.record(&changed).ok()?.timeline(budget.memory_model()).peak();
        let saved = peak.checked_sub(lower).filter(|saved| *saved > 0)?;
        Some(Advice { class, text: format!("{change} saves {} ({cost})", ByteSize::b(saved)) })
    });
    lowered.collect()
}

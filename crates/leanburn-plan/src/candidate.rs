//! One choice of everything that can be varied.

use std::collections::BTreeMap;

use leanburn_ops::{Residency, ResidencyPolicy};
use serde::{Deserialize, Serialize};

/// One choice of everything that a [`Space`](crate::Space) can vary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Index of the [`Variant`](crate::Variant).
    pub variant: usize,
    /// Items of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of a step.
    pub accumulation: u64,
    /// Segments that are recomputed.
    pub recompute: Vec<String>,
    /// Values of knobs by name; one that is not in here is as fast as it goes.
    #[serde(flatten)]
    pub knobs: BTreeMap<String, usize>,
}

impl Candidate {
    /// The training as configured, with nothing recomputed, in `accumulation` micro-batches of `micro_batch` items.
    pub fn new(micro_batch: usize, accumulation: u64) -> Self {
        Self { variant: 0, micro_batch, accumulation, recompute: Vec::new(), knobs: BTreeMap::new() }
    }

    /// With a knob set, or as fast as it goes.
    #[must_use]
    pub fn with_knob(mut self, name: &str, value: Option<usize>) -> Self {
        match value {
            Some(value) => self.knobs.insert(name.to_string(), value),
            None => self.knobs.remove(name),
        };
        self
    }

    /// What a knob is set to; `None` where it is as fast as it goes.
    pub fn knob(&self, name: &str) -> Option<usize> {
        self.knobs.get(name).copied()
    }

    /// Micro-batches that a recording needs: the second meets the gradients of the first, the others are like it.
    pub fn recorded(&self) -> u64 {
        self.accumulation.min(2)
    }

    /// Which segments are recomputed, as models take it.
    pub fn residency(&self) -> ResidencyPolicy {
        let recompute = |policy: ResidencyPolicy, name: &String| policy.with_rule(name, Residency::Recompute);
        self.recompute.iter().fold(ResidencyPolicy::keep(), recompute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_fields_of_a_candidate() {
        let candidate = Candidate::new(2, 1).with_knob("attention_block", Some(16));
        let text = r#"{"variant":0,"micro_batch":2,"accumulation":1,"recompute":[],"attention_block":16}"#;
        assert_eq!(serde_json::to_string(&candidate).unwrap(), text);
        assert_eq!(serde_json::from_str::<Candidate>(text).unwrap(), candidate);
    }
}

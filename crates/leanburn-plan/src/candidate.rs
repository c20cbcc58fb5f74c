//! One choice of everything that can be varied.

use std::collections::BTreeMap;

use leanburn_ops::{Residency, ResidencyPolicy, StreamSettings};
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
    /// Segments that are streamed, whether they are recomputed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream: Vec<String>,
    /// How they are streamed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stream_settings: StreamSettings,
    /// Values of knobs by name; one that is not in here is as fast as it goes.
    #[serde(flatten)]
    pub knobs: BTreeMap<String, usize>,
}

impl Candidate {
    /// The training as configured, with nothing recomputed, in `accumulation` micro-batches of `micro_batch` items.
    pub fn new(micro_batch: usize, accumulation: u64) -> Self {
        Self {
            variant: 0,
            micro_batch,
            accumulation,
            recompute: Vec::new(),
            stream: Vec::new(),
            stream_settings: StreamSettings::default(),
            knobs: BTreeMap::new(),
        }
    }

    /// With these segments streamed; of none the settings are the default.
    #[must_use]
    pub fn with_streamed(self, stream: Vec<String>, settings: StreamSettings) -> Self {
        let stream_settings = if stream.is_empty() { StreamSettings::default() } else { settings };
        Self { stream, stream_settings, ..self }
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

    /// Which segments are recomputed and which streamed, as models take it.
    pub fn residency(&self) -> ResidencyPolicy {
        let recomputed = self.recompute.iter().map(|name| (name, Residency::Recompute));
        let streamed = self.stream.iter().map(|name| (name, Residency::Stream(self.stream_settings)));
        let with_rule = |policy: ResidencyPolicy, (name, residency)| policy.with_rule(name, residency);
        recomputed.chain(streamed).fold(ResidencyPolicy::keep(), with_rule)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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

    #[test]
    fn streams_are_fields_of_a_candidate_that_has_some() {
        let settings = StreamSettings::default().with_slab_planes(4);
        let candidate = Candidate::new(2, 1).with_streamed(vec!["decoder.level_0".into()], settings);
        let text = r#"{"variant":0,"micro_batch":2,"accumulation":1,"recompute":[],"stream":["decoder.level_0"],"stream_settings":{"slab_planes":4,"keep":"two"}}"#;
        assert_eq!(serde_json::to_string(&candidate).unwrap(), text);
        assert_eq!(serde_json::from_str::<Candidate>(text).unwrap(), candidate);
        assert_eq!(candidate.residency().of("decoder.level_0"), Residency::Stream(settings));
        assert_eq!(Candidate::new(2, 1).with_streamed(Vec::new(), settings), Candidate::new(2, 1));
    }
}

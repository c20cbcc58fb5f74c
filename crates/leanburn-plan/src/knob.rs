//! Numbers of a training that can be set lower: less memory, more time, the same sums.

use crate::candidate::Candidate;
use crate::timeline::Timeline;

/// A number of the training that can be set lower, for less memory and more time, without changing a sum: how many positions
/// attention takes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name, as candidates carry it.
    pub name: &'static str,
    /// The values below the one that is fastest, largest first.
    pub values: Vec<usize>,
    /// A part of the names of the segments whose peak it lowers: it is turned where the peak of a step stands in one.
    pub segment: &'static str,
}

impl Knob {
    /// The candidate with the next lower value, if there is one and `timeline`, the candidate's own, peaks where it helps.
    pub fn lower(&self, candidate: &Candidate, timeline: &Timeline) -> Option<Candidate> {
        let segment = timeline.events.get(timeline.peak_index())?.segment?;
        let now = candidate.knob(self.name).unwrap_or(usize::MAX);
        let lower = self.values.iter().copied().find(|value| *value < now)?;
        timeline.segments[segment].contains(self.segment).then(|| candidate.clone().with_knob(self.name, Some(lower)))
    }
}

#[cfg(test)]
mod tests {
    use leanburn_common::Bytes;

    use super::*;
    use crate::timeline::{OperationEvent, Phase};

    /// A step whose peak stands in a segment.
    fn peak_in(segment: &str) -> Timeline {
        let event = OperationEvent {
            operation: "matmul".into(),
            phase: Phase::Forward,
            segment: Some(0),
            flops: 0,
            repeats: 1.0,
            is_half: false,
            bytes_moved: Bytes(0),
            during: Bytes(1),
            after: Bytes(0),
            workspace: Bytes(0),
            graph_metadata: Bytes(0),
        };
        Timeline { events: vec![event], segments: vec![segment.into()], parents: vec![None], ..Timeline::default() }
    }

    #[test]
    fn a_knob_goes_down_value_by_value_where_the_peak_stands() {
        let knob = Knob { name: "block", values: vec![64, 32, 16], segment: "attention" };
        let (inside, outside) = (peak_in("level_1.attention_0"), peak_in("level_1.res_0"));
        let mut candidate = Candidate::new(1, 2);
        assert_eq!(knob.lower(&candidate, &outside), None);
        assert_eq!(knob.lower(&candidate, &Timeline::default()), None);
        let mut values = Vec::new();
        while let Some(lower) = knob.lower(&candidate, &inside) {
            values.extend(lower.knob("block"));
            candidate = lower;
        }
        assert_eq!(values, [64, 32, 16]);
        let between = candidate.with_knob("block", Some(40));
        assert_eq!(knob.lower(&between, &inside).unwrap().knob("block"), Some(32));
    }
}

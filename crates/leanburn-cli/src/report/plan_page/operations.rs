//! The operations of a step, to open part by part.

use super::super::events::{Stretch, segment_name, stretches};
use super::super::memory::size_text;
use crate::console::seconds_text;
use leanburn_common::Bytes;
use leanburn_plan::{OperationEvent, Timeline};

/// Of more parts the longest are listed.
const MOST_STAGES: usize = 200;

/// Neighbouring operations of one phase and one segment.
pub(super) struct Stage<'a> {
    /// Phase and segment.
    pub name: String,
    /// Numbers of the first and the last operation.
    pub place: String,
    pub time: String,
    /// The most that is held while one of them runs.
    pub most: String,
    pub operations: Vec<Operation<'a>>,
    seconds: f64,
    first: usize,
}

/// The operations of a stage that have one name.
pub(super) struct Operation<'a> {
    pub name: &'a str,
    pub count: usize,
    pub time: String,
    pub most: String,
}

/// The stages of a step in their order; `seconds` has the planned time of each operation, or nothing.
pub(super) fn stages<'a>(timeline: &'a Timeline, seconds: &[f64]) -> Vec<Stage<'a>> {
    let parts = stretches(&timeline.events, |event| (event.phase, event.segment));
    let stage = |part: &Stretch<_>| {
        let (phase, segment) = part.key;
        let times = |at: usize| seconds.get(at).copied().unwrap_or_default();
        let events = &timeline.events[part.events.clone()];
        let total = part.events.clone().map(times).sum();
        let mut operations: Vec<(&str, Vec<usize>)> = Vec::new();
        for at in part.events.clone() {
            let name = timeline.events[at].operation.as_str();
            match operations.iter_mut().find(|(known, _)| *known == name) {
                Some((_, places)) => places.push(at),
                None => operations.push((name, vec![at])),
            }
        }
        let operation = |(name, places): (&'a str, Vec<usize>)| Operation {
            name,
            count: places.len(),
            time: time(places.iter().map(|at| times(*at)).sum()),
            most: most(places.iter().map(|at| &timeline.events[*at])),
        };
        let segment = segment_name(timeline, segment).map_or(String::new(), |name| format!(", {name}"));
        Stage {
            name: format!("{phase}{segment}"),
            place: format!("{} to {}", part.events.start + 1, part.events.end),
            time: time(total),
            most: most(events.iter()),
            operations: operations.into_iter().map(operation).collect(),
            seconds: total,
            first: part.events.start,
        }
    };
    let mut stages: Vec<Stage<'_>> = parts.iter().map(stage).collect();
    stages.sort_by(|one, other| other.seconds.total_cmp(&one.seconds).then(one.first.cmp(&other.first)));
    stages.truncate(MOST_STAGES);
    stages.sort_by_key(|stage| stage.first);
    stages
}

fn most<'a>(events: impl Iterator<Item = &'a OperationEvent>) -> String {
    size_text(events.map(|event| event.during).max().unwrap_or(Bytes(0)))
}

/// A time; nothing where it is not known.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds <= 0.0 => String::new(),
        seconds if seconds < 0.1 => format!("{:.2} ms", 1e3 * seconds),
        seconds => seconds_text(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::events::tests::handmade;
    use super::*;

    #[test]
    fn operations_stand_in_the_parts_that_they_belong_to() {
        let timeline = handmade();
        let stages = stages(&timeline, &[0.5, 0.25, 0.25, 1.0]);
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["forward, encoder", "forward, decoder", "backward, decoder", "update"]);
        let (first, last) = (&stages[0], &stages[3]);
        assert_eq!((first.place.as_str(), last.place.as_str()), ("1 to 1", "4 to 4"));
        assert_eq!((last.time.as_str(), stages[2].most.as_str()), ("1.00 s", "190 B"));
        assert_eq!(stages[2].operations[0].name, "operation_190");
    }

    #[test]
    fn of_many_parts_the_longest_are_listed() {
        let mut timeline = handmade();
        timeline.events =
            (0..900).map(|at| OperationEvent { segment: Some(at % 2), ..timeline.events[0].clone() }).collect();
        let seconds: Vec<f64> = (0..900).map(|at| if at >= 500 { 2.0 } else { 1.0 }).collect();
        let stages = stages(&timeline, &seconds);
        assert_eq!((stages.len(), stages[0].first), (MOST_STAGES, 500));
    }
}

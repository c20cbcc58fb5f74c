//! The memory of a step as a trace file that [Perfetto](https://ui.perfetto.dev) opens.
//!
//! The format is Chrome's:
//! [Trace Event Format](https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).

use super::events::{ancestry, cause_bytes, segment_name, stretches};
use leanburn_plan::{Cause, Timeline};
use serde_json::{Map, Value, json};
use std::ops::Range;

const PROCESS: u64 = 1;
/// An operation without a duration takes this many nanoseconds.
const DEFAULT_NANOSECONDS: u64 = 1000;

/// The tracks of slices, in the order in which they are shown.
#[derive(Clone, Copy)]
enum Track {
    Phases = 1,
    Segments,
    Operations,
}

impl Track {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Phases, "phases"), (Self::Segments, "segments"), (Self::Operations, "operations")];
}

/// Writes a trace in Chrome's JSON format: tracks of phases, segments and operations, and counters of the bytes that are
/// held, by cause and in all, while each operation runs.
///
/// `durations` are the seconds that each event takes, in the order of the events. An event that has none there, or one
/// that is negative or no number, takes a microsecond; the shortest is a nanosecond, the resolution of the trace.
pub fn perfetto_trace(timeline: &Timeline, durations: Option<&[f64]>) -> String {
    let clock = Clock::new(timeline.events.len(), durations.unwrap_or_default());
    let mut trace = names();
    for phase in stretches(&timeline.events, |event| event.phase) {
        let arguments = most(timeline, &phase.events);
        trace.push(clock.slice(Track::Phases, &phase.key.to_string(), &phase.events, arguments));
    }
    segments(timeline, &clock, &mut trace);
    operations(timeline, &clock, &mut trace);
    counters(timeline, &clock, &mut trace);
    json!({ "displayTimeUnit": "ns", "traceEvents": trace }).to_string()
}

/// Names of the process and of its tracks.
fn names() -> Vec<Value> {
    let process =
        json!({ "ph": "M", "pid": PROCESS, "name": "process_name", "args": { "name": "training step, as planned" } });
    let tracks = Track::ALL.into_iter().flat_map(|(track, name)| {
        let track = track as u64;
        [
            json!({ "ph": "M", "pid": PROCESS, "tid": track, "name": "thread_name", "args": { "name": name } }),
            json!({ "ph": "M", "pid": PROCESS, "tid": track, "name": "thread_sort_index", "args": { "sort_index": track } }),
        ]
    });
    [process].into_iter().chain(tracks).collect()
}

/// The most that is held in a stretch.
fn most(timeline: &Timeline, events: &Range<usize>) -> Value {
    let most = timeline.events[events.clone()].iter().map(|event| event.during).max();
    json!({ "most bytes held": most })
}

/// Segments, and those within them below.
fn segments(timeline: &Timeline, clock: &Clock, trace: &mut Vec<Value>) {
    for depth in 0.. {
        let found = stretches(&timeline.events, |event| ancestry(timeline, event.segment).get(depth).copied());
        let named = found.iter().filter_map(|stretch| Some((stretch, segment_name(timeline, stretch.key)?)));
        let before = trace.len();
        trace.extend(named.map(|(stretch, name)| {
            clock.slice(Track::Segments, name, &stretch.events, most(timeline, &stretch.events))
        }));
        if trace.len() == before {
            break;
        }
    }
}

fn operations(timeline: &Timeline, clock: &Clock, trace: &mut Vec<Value>) {
    for (index, event) in timeline.events.iter().enumerate() {
        let arguments = json!({
            "event": index,
            "phase": event.phase.to_string(),
            "segment": segment_name(timeline, event.segment),
            "bytes during": event.during,
            "bytes after": event.after,
            "bytes of workspace": event.workspace,
            "bytes of graph metadata": event.graph_metadata,
            "bytes moved": event.bytes_moved,
            "flops": event.flops,
        });
        trace.push(clock.slice(Track::Operations, &event.operation, &(index..index + 1), arguments));
    }
}

/// The bytes by cause, those that the step knows, and in all.
fn counters(timeline: &Timeline, clock: &Clock, trace: &mut Vec<Value>) {
    let bytes = cause_bytes(timeline);
    let known = Cause::ALL.iter().enumerate().filter(|(place, _)| bytes.iter().any(|bytes| bytes[*place] > 0));
    let known: Vec<_> = known.collect();
    for (index, (event, bytes)) in timeline.events.iter().zip(&bytes).enumerate() {
        let by_cause = known.iter().map(|(place, cause)| (cause.to_string(), json!(bytes[*place])));
        trace.push(clock.counter("live bytes", index, Value::Object(by_cause.collect::<Map<_, _>>())));
        trace.push(clock.counter("live bytes in all", index, json!({ "bytes": event.during })));
    }
}

/// When each event begins, and the last one ends, in nanoseconds.
struct Clock(Vec<u64>);

impl Clock {
    fn new(events: usize, durations: &[f64]) -> Self {
        let known = durations.iter().map(|seconds| nanoseconds(*seconds));
        let durations = known.chain(std::iter::repeat(DEFAULT_NANOSECONDS)).take(events);
        let ends = durations.scan(0_u64, |now, duration| {
            *now = now.saturating_add(duration);
            Some(*now)
        });
        Self([0].into_iter().chain(ends).collect())
    }

    fn slice(&self, track: Track, name: &str, events: &Range<usize>, arguments: Value) -> Value {
        let (start, end) = (self.0[events.start], self.0[events.end]);
        json!({
            "ph": "X", "pid": PROCESS, "tid": track as u64, "name": name,
            "ts": microseconds(start), "dur": microseconds(end - start), "args": arguments,
        })
    }

    fn counter(&self, name: &str, index: usize, arguments: Value) -> Value {
        json!({ "ph": "C", "pid": PROCESS, "name": name, "ts": microseconds(self.0[index]), "args": arguments })
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    match seconds {
        0.0.. => ((seconds * 1e9).round() as u64).max(1),
        _ => DEFAULT_NANOSECONDS,
    }
}

/// The unit of the format.
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::handmade;
    use super::*;

    fn trace(timeline: &Timeline, durations: Option<&[f64]>) -> Vec<Value> {
        let trace: Value = serde_json::from_str(&perfetto_trace(timeline, durations)).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    fn of_kind<'a>(trace: &'a [Value], kind: &str) -> Vec<&'a Value> {
        trace.iter().filter(|event| event["ph"] == kind).collect()
    }

    /// Name, start and end in nanoseconds of the slices of a track.
    fn slices(trace: &[Value], track: Track) -> Vec<(String, u64, u64)> {
        let slices = of_kind(trace, "X").into_iter().filter(|event| event["tid"] == track as u64);
        let nanoseconds = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as u64;
        slices
            .map(|slice| {
                let start = nanoseconds(&slice["ts"]);
                (slice["name"].as_str().unwrap().to_string(), start, start.saturating_add(nanoseconds(&slice["dur"])))
            })
            .collect()
    }

    #[test]
    fn operations_lie_within_segments_and_phases() {
        let timeline = handmade();
        let trace = trace(&timeline, None);
        let operations = slices(&trace, Track::Operations);
        let named = |name: &str, start, end| (name.to_string(), start, end);
        assert_eq!(operations[1], named("operation_160", 1000, 2000));
        assert_eq!(slices(&trace, Track::Segments), [named("encoder", 0, 1000), named("decoder", 1000, 3000)]);
        let phases = slices(&trace, Track::Phases);
        assert_eq!(phases, [named("forward", 0, 2000), named("backward", 2000, 3000), named("update", 3000, 4000)]);
        for (_, start, end) in operations {
            assert!(phases.iter().any(|(_, first, last)| *first <= start && end <= *last));
        }
    }

    #[test]
    fn segments_lie_within_those_around_them() {
        let mut timeline = handmade();
        timeline.segments.push("model".to_string());
        timeline.parents = vec![Some(2), Some(2), None];
        let segments = slices(&trace(&timeline, None), Track::Segments);
        let expected = [("model", 0, 3000), ("encoder", 0, 1000), ("decoder", 1000, 3000)];
        assert_eq!(segments, expected.map(|(name, start, end)| (name.to_string(), start, end)));
    }

    #[test]
    fn times_follow_the_durations_without_gaps() {
        let timeline = handmade();
        let durations = [0.25e-3, 1e-7 / 3.0, f64::NAN];
        let operations = slices(&trace(&timeline, Some(&durations)), Track::Operations);
        let ends = operations.iter().map(|(_, _, end)| *end);
        assert_eq!(ends.collect::<Vec<_>>(), [250_000, 250_033, 251_033, 252_033]);
        assert!(operations.windows(2).all(|pair| pair[0].2 == pair[1].1));
        let extremes = slices(&trace(&timeline, Some(&[0.0, -1.0, 1e300, 1e300])), Track::Operations);
        assert!(extremes.is_sorted_by_key(|(_, start, _)| *start));
        assert_eq!((extremes[0].2, extremes[1].2), (1, 1001));
    }

    #[test]
    fn counters_equal_the_timeline() {
        let timeline = handmade();
        let trace = trace(&timeline, None);
        let counters = of_kind(&trace, "C");
        for (index, event) in timeline.events.iter().enumerate() {
            let at = |name: &str| {
                let here = |event: &&&Value| event["name"] == name && event["ts"] == index as f64;
                let found: Vec<_> = counters.iter().filter(here).collect();
                assert_eq!(found.len(), 1, "{name} at {index}");
                found[0]["args"].as_object().unwrap().clone()
            };
            let live = at("live bytes");
            for (cause, bytes) in timeline.causes_at(index) {
                assert_eq!(live[&cause.to_string()], bytes.get(), "{cause} at {index}");
            }
            let sum: u64 = live.values().map(|bytes| bytes.as_u64().unwrap()).sum();
            assert_eq!((sum, &at("live bytes in all")["bytes"]), (event.during.get(), &json!(event.during)));
            assert_eq!(live.len(), 5, "weights, gradients, saved activations, temporaries, workspace");
        }
        assert!(counters.is_sorted_by(|a, b| a["ts"].as_f64() <= b["ts"].as_f64()));
    }

    #[test]
    fn slices_carry_what_an_operation_needs() {
        let timeline = handmade();
        let trace = trace(&timeline, None);
        let slices = of_kind(&trace, "X");
        let peak = slices.iter().find(|slice| slice["name"] == "operation_190").unwrap();
        let expected = json!({
            "event": 2, "phase": "backward", "segment": "decoder", "bytes during": 190, "bytes after": 170,
            "bytes of workspace": 20, "bytes of graph metadata": 0, "bytes moved": 380, "flops": 1900,
        });
        assert_eq!(peak["args"], expected);
        let decoder = slices.iter().find(|slice| slice["name"] == "decoder").unwrap();
        assert_eq!(decoder["args"]["most bytes held"], 190);
    }

    #[test]
    fn tracks_are_named_and_an_empty_step_is_a_trace() {
        let trace = trace(&Timeline::default(), None);
        let names = trace.iter().map(|event| event["args"]["name"].as_str());
        let names: Vec<_> = names.flatten().collect();
        assert_eq!(names, ["training step, as planned", "phases", "segments", "operations"]);
        assert_eq!(of_kind(&trace, "M").len(), trace.len());
    }
}

//! The memory of a step over its time, drawn as SVG.

use super::error::ReportError;
use super::events::{CauseBytes, Stretch, cause_bytes, colour, segment_name, stretches};
use super::memory::size_text;
use super::timeline_labels::{BudgetLabel, PEAK_LINE, PeakLabel, SegmentLabel, segment_labels};
use super::timeline_scale::{BOTTOM, LEFT, RIGHT, Scale, TOP, Tick};
use crate::console::seconds_text;
use askama::Template;
use leanburn_common::Bytes;
use leanburn_plan::{Cause, Phase, Timeline};
use std::fmt::Write;
use std::ops::Range;

const WIDTH: f64 = 1040.0;
/// Phases stand above this line, the name of the peak below it.
const PHASES: f64 = 22.0;
/// Segments stand between the bottom and this line, their names below it.
const SEGMENTS: f64 = 364.0;
/// A step of more operations than this is drawn in columns of several, each as high as its highest.
const MOST_COLUMNS: usize = 600;
/// Width of a letter, roughly.
const LETTER: f64 = 6.6;
/// A budget of more than this many peaks is not drawn to scale: the peak would be hard to see.
const MOST_PEAKS: u64 = 3;

/// Draws what a step holds while its operations run, one after another: an area for each cause, stacked in the order of
/// [`Cause::ALL`], with phases, segments, the peak and the budget. `seconds` says how long each operation takes, as planned, and so how
/// wide it is; where it is empty all are as wide. The drawing uses the styles of the plan's page and is followed by its legend.
///
/// # Errors
///
/// When the template cannot be rendered.
pub fn timeline_chart(timeline: &Timeline, seconds: &[f64], budget: Option<Bytes>) -> Result<String, ReportError> {
    Ok(Drawing::new(timeline, seconds, budget).render()?)
}

/// Events that are drawn as one.
struct Column {
    events: Range<usize>,
    /// The first of those that hold the most.
    highest: usize,
}

/// At most `limit` columns of neighbouring events, whose middles lie in the same `limit`-th of the time.
fn columns(timeline: &Timeline, scale: &Scale, limit: usize) -> Vec<Column> {
    let part = |index: usize| {
        let middle = (scale.share(index) + scale.share(index + 1)) / 2.0;
        ((middle * limit as f64) as usize).min(limit - 1)
    };
    let events: Vec<usize> = (0..timeline.events.len()).collect();
    let neighbours = events.chunk_by(|one, next| part(*one) == part(*next));
    let column = |events: &[usize]| {
        let highest = events.iter().rev().max_by_key(|index| timeline.events[**index].during);
        Column { highest: *highest.unwrap_or(&events[0]), events: events[0]..events[events.len() - 1] + 1 }
    };
    neighbours.map(column).collect()
}

/// The drawing in the coordinates of its SVG.
#[derive(Template)]
#[template(path = "timeline.svg")]
struct Drawing {
    /// What the horizontal axis shows.
    axis: String,
    unit: &'static str,
    ticks: Vec<Tick>,
    phases: Vec<Band>,
    segments: Vec<Band>,
    names: Vec<SegmentLabel>,
    areas: Vec<Area>,
    outline: String,
    columns: Vec<Hover>,
    peak: Option<PeakLabel>,
    budget: Option<BudgetLabel>,
    height: f64,
}

/// A stretch of events above or below the areas.
struct Band {
    left: f64,
    width: f64,
    /// Neighbours look different.
    class: &'static str,
    name: String,
    title: String,
}

struct Area {
    colour: &'static str,
    path: String,
    cause: Cause,
    at_peak: String,
    most: String,
}

/// The area of the tooltip of a column: above its areas.
struct Hover {
    left: f64,
    width: f64,
    height: f64,
    title: String,
}

impl Drawing {
    fn new(timeline: &Timeline, seconds: &[f64], budget: Option<Bytes>) -> Self {
        let count = timeline.events.len();
        let total: f64 = seconds.iter().sum();
        let time = if total > 0.0 { format!("planned time, {}: ", seconds_text(total)) } else { String::new() };
        let even = vec![1.0; count];
        let seconds = if seconds.len() == count { seconds } else { &even };
        let budget = budget.map(|budget| budget.get());
        let (peak, bytes) = (timeline.peak().get(), cause_bytes(timeline));
        let near = budget.filter(|budget| *budget <= peak.saturating_mul(MOST_PEAKS));
        let scale = Scale::new(seconds, peak.max(near.unwrap_or(0)));
        let columns = columns(timeline, &scale, MOST_COLUMNS);
        let by_segment = stretches(&timeline.events, |event| event.segment);
        let names = segment_labels(timeline, &by_segment, &scale);
        let peak_label = (count > 0).then(|| PeakLabel::new(timeline, &scale));
        let label = |budget| Some(BudgetLabel::new(budget, near.is_some(), peak_label.as_ref()?, &scale));
        let longest = names.iter().map(|name| name.text.chars().count()).max().unwrap_or(0);
        Self {
            axis: format!("{time}the {count} operations of the step, in order, and the segments that they belong to"),
            unit: scale.unit_name(),
            ticks: if count > 0 { scale.ticks() } else { Vec::new() },
            phases: phases(timeline, &scale),
            segments: segments(timeline, &by_segment, &scale),
            names,
            areas: areas(&columns, &bytes, timeline.peak_index(), &scale),
            outline: staircase(&columns, &scale, |index| timeline.events[index].during.get()),
            columns: columns.iter().map(|column| Hover::new(column, timeline, &scale)).collect(),
            budget: budget.and_then(label),
            peak: peak_label,
            height: SEGMENTS + 34.0 + longest as f64 * LETTER * 0.87,
        }
    }
}

/// An SVG path along the tops of columns, from left to right.
fn staircase(columns: &[Column], scale: &Scale, bytes: impl Fn(usize) -> u64) -> String {
    let mut path = String::new();
    for (place, column) in columns.iter().enumerate() {
        let (left, right) = (scale.x(column.events.start), scale.x(column.events.end));
        let top = scale.y(bytes(column.highest));
        let _ = match place {
            0 => write!(path, "M{left:.1} {top:.1}H{right:.1}"),
            _ => write!(path, "V{top:.1}H{right:.1}"),
        };
    }
    path
}

/// An SVG path back along the tops of columns, from right to left.
fn staircase_back(columns: &[Column], scale: &Scale, bytes: impl Fn(usize) -> u64) -> String {
    let mut path = String::new();
    for column in columns.iter().rev() {
        let _ = write!(path, "V{:.1}H{:.1}", scale.y(bytes(column.highest)), scale.x(column.events.start));
    }
    path + "Z"
}

/// The areas of the causes that the step knows, the lowest first.
fn areas(columns: &[Column], bytes: &[CauseBytes], peak: usize, scale: &Scale) -> Vec<Area> {
    let below = |count: usize| move |index: usize| bytes[index][..count].iter().copied().fold(0, u64::saturating_add);
    let known = Cause::ALL.into_iter().enumerate();
    known
        .filter_map(|(place, cause)| {
            let most = bytes.iter().map(|bytes| bytes[place]).max().filter(|most| *most > 0)?;
            let path = staircase(columns, scale, below(place + 1)) + &staircase_back(columns, scale, below(place));
            let at_peak = size_text(Bytes(bytes[peak][place]));
            Some(Area { colour: colour(cause), path, cause, at_peak, most: size_text(Bytes(most)) })
        })
        .collect()
}

impl Band {
    /// A band; none where it would be too narrow to be seen.
    fn new<K>(stretch: &Stretch<K>, scale: &Scale, class: &'static str, name: &str) -> Option<Self> {
        let (left, right) = (scale.x(stretch.events.start), scale.x(stretch.events.end));
        let fits = name.chars().count() as f64 * LETTER + 4.0 < right - left;
        let title = format!("{name}: events {} to {}", stretch.events.start + 1, stretch.events.end);
        let name = if fits { name.to_string() } else { String::new() };
        (right - left >= 0.5).then_some(Self { left, width: right - left, class, name, title })
    }
}

fn phases(timeline: &Timeline, scale: &Scale) -> Vec<Band> {
    let phases = stretches(&timeline.events, |event| event.phase);
    let class = |phase: Phase| match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        _ => "update",
    };
    phases.iter().filter_map(|phase| Band::new(phase, scale, class(phase.key), &phase.key.to_string())).collect()
}

fn segments(timeline: &Timeline, by_segment: &[Stretch<Option<usize>>], scale: &Scale) -> Vec<Band> {
    let named = by_segment.iter().filter_map(|stretch| Some((stretch, segment_name(timeline, stretch.key)?)));
    let classes = ["even", "odd"].into_iter().cycle();
    named.zip(classes).filter_map(|((stretch, name), class)| Band::new(stretch, scale, class, name)).collect()
}

impl Hover {
    fn new(column: &Column, timeline: &Timeline, scale: &Scale) -> Self {
        let event = &timeline.events[column.highest];
        let segment = segment_name(timeline, event.segment).map_or(String::new(), |name| format!(" in {name}"));
        let (place, count, size) = (column.highest + 1, timeline.events.len(), size_text(event.during));
        let left = scale.x(column.events.start);
        Self {
            left,
            width: scale.x(column.events.end) - left,
            height: scale.y(event.during.get()) - PHASES,
            title: format!("{size} at event {place} of {count}: {}{segment}, {}", event.operation, event.phase),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::events::tests::{event, handmade};
    use super::*;
    use proptest::prelude::*;

    pub fn of_heights(heights: &[u64]) -> Timeline {
        let event = |during: &u64| event(Phase::Forward, None, *during, *during);
        Timeline { events: heights.iter().map(event).collect(), ..Timeline::default() }
    }

    proptest! {
        #[test]
        fn columns_keep_the_peak(
            heights in proptest::collection::vec(0_u64..1000, 1..3000),
            seconds in proptest::collection::vec(0.0_f64..1.0, 3000),
            limit in 1_usize..700,
        ) {
            let timeline = of_heights(&heights);
            let scale = Scale::new(&seconds[..heights.len()], 1000);
            let columns = columns(&timeline, &scale, limit);
            prop_assert!(columns.len() <= limit);
            let events: Vec<usize> = columns.iter().flat_map(|column| column.events.clone()).collect();
            prop_assert_eq!(events, (0..heights.len()).collect::<Vec<_>>());
            for column in &columns {
                let most = heights[column.events.clone()].iter().max();
                prop_assert_eq!(Some(&heights[column.highest]), most);
            }
            prop_assert!(columns.iter().any(|column| column.highest == timeline.peak_index()));
        }
    }

    #[test]
    fn areas_are_stacked_steps_up_to_the_peak() {
        let drawing = Drawing::new(&handmade(), &[], None);
        let causes: Vec<_> = drawing.areas.iter().map(|area| area.cause).collect();
        assert_eq!(
            causes,
            [Cause::Weights, Cause::Gradients, Cause::SavedActivations, Cause::Temporaries, Cause::Workspace]
        );
        // 200 bytes are the height, 300 pixels; four events share 944 pixels.
        assert_eq!(
            drawing.areas[0].path,
            "M84.0 202.0H320.0V202.0H556.0V202.0H792.0V202.0H1028.0V352.0H792.0V352.0H556.0V352.0H320.0V352.0H84.0Z"
        );
        assert!(
            drawing.areas[2]
                .path
                .starts_with("M84.0 157.0H320.0V112.0H556.0V112.0H792.0V179.5H1028.0V179.5H792.0V202.0")
        );
        assert_eq!(drawing.outline, "M84.0 157.0H320.0V112.0H556.0V67.0H792.0V179.5H1028.0");
        assert_eq!((drawing.areas[1].at_peak.as_str(), drawing.areas[1].most.as_str()), ("0 B", "15 B"));
    }

    #[test]
    fn the_peak_is_named_and_marked_where_it_stands() {
        let drawing = Drawing::new(&handmade(), &[], None);
        let peak = drawing.peak.as_ref().unwrap();
        assert_eq!((peak.x, peak.y, peak.anchor), (674.0, 67.0, "end"));
        assert_eq!(peak.text, "peak 190 B: operation_190 in decoder, backward");
        let svg = drawing.render().unwrap();
        assert!(svg.contains("peak 190 B: operation_190 in decoder, backward</text>"));
        assert!(svg.contains("<title>saved activations: 60 B at the peak, at most 60 B</title>"));
        assert!(svg.contains("<title>160 B at event 2 of 4: operation_160 in decoder, forward</title>"));
        assert!(svg.contains("<title>encoder: events 1 to 1</title>") && svg.contains(">backward</text>"));
    }

    #[test]
    fn a_budget_is_a_dashed_line_unless_it_is_far_above() {
        let budget = |bytes| Drawing::new(&handmade(), &[], Some(Bytes(bytes)));
        let near = budget(400);
        assert_eq!(near.budget.as_ref().unwrap().y, Some(52.0));
        assert_eq!(near.peak.as_ref().unwrap().y, 209.5);
        assert!(near.render().unwrap().contains("class=\"budget\"") && near.budget.unwrap().text == "budget 400 B");
        let far = budget(600);
        assert_eq!((far.budget.as_ref().unwrap().y, far.peak.as_ref().unwrap().y), (None, 67.0));
        assert!(!far.render().unwrap().contains("class=\"budget\"") && far.budget.unwrap().text.ends_with("far above"));
        assert!(!timeline_chart(&handmade(), &[], None).unwrap().contains("budget"));
    }

    #[test]
    fn an_operation_is_as_wide_as_its_planned_time() {
        let drawing = Drawing::new(&handmade(), &[2.0, 0.5, 1.0, 0.5], None);
        assert_eq!(drawing.outline, "M84.0 157.0H556.0V112.0H674.0V67.0H910.0V179.5H1028.0");
        assert_eq!(drawing.peak.as_ref().unwrap().x, 792.0);
        assert!(drawing.render().unwrap().contains("planned time, 4.00 s: the 4 operations of the step"));
        // ten thousand quick operations of an update do not take the page from two slow ones
        let heights: Vec<u64> = [vec![9, 7], vec![3; 10_000]].concat();
        let seconds: Vec<f64> = [vec![1.0; 2], vec![1e-6; 10_000]].concat();
        let drawing = Drawing::new(&of_heights(&heights), &seconds, None);
        assert!(drawing.columns[0].width > 450.0 && drawing.columns.len() <= 6, "{}", drawing.columns.len());
    }

    #[test]
    fn units_follow_the_size() {
        use bytesize::{GIB, KIB, MIB};
        let unit = |bytes| Drawing::new(&of_heights(&[bytes]), &[], None).unit;
        assert_eq!([0, KIB, MIB, 3 * GIB].map(unit), ["bytes", "KiB", "MiB", "GiB"]);
        let ticks: Vec<_> =
            Drawing::new(&of_heights(&[5 * GIB]), &[], None).ticks.into_iter().map(|tick| tick.label).collect();
        assert_eq!(ticks, ["0", "1", "2", "3", "4", "5"]);
    }

    #[test]
    fn long_steps_stay_small() {
        let timeline = of_heights(&(0..100_000).map(|index| index % 977).collect::<Vec<_>>());
        let drawing = Drawing::new(&timeline, &[], None);
        assert!((500..=MOST_COLUMNS).contains(&drawing.columns.len()));
        assert!(drawing.render().unwrap().len() < 200_000);
    }

    #[test]
    fn hostile_names_are_escaped_and_nothing_says_so() {
        let mut timeline = handmade();
        timeline.segments[1] = "<b>&".to_string();
        timeline.events[2].operation = "<script>".to_string();
        let svg = timeline_chart(&timeline, &[], None).unwrap();
        assert!(
            !svg.contains("<script>") && !svg.contains("<b>&") && svg.contains("&#60;script&#62; in &#60;b&#62;&#38;")
        );
        let empty = timeline_chart(&Timeline::default(), &[], Some(Bytes::gib(1))).unwrap();
        assert!(empty.contains("no operations to draw") && !empty.contains("peak"));
        assert!(timeline_chart(&of_heights(&[0, u64::MAX, u64::MAX]), &[], Some(Bytes(u64::MAX))).is_ok());
    }
}

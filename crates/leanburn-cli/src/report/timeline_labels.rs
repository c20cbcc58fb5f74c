//! What is written into the chart of a step: the peak, the budget, names of segments.

use super::events::{Stretch, segment_name};
use super::memory::size_text;
use super::timeline_scale::{LEFT, RIGHT, Scale, TOP};
use leanburn_common::Bytes;
use leanburn_plan::Timeline;
use std::cmp::Reverse;

/// Longer names of segments and operations lose their middle.
const LONGEST_NAME: usize = 28;
/// What a rotated name takes along the axis.
const NAME_DISTANCE: f64 = 17.0;
/// Where the peak is named, above the areas.
pub(super) const PEAK_LINE: f64 = TOP - 12.0;
/// Width of a letter of these texts, at most.
const LETTER: f64 = 8.0;
/// Height of such a text.
const LINE: f64 = 14.0;

/// The name of a segment, where there is room.
pub(super) struct SegmentLabel {
    pub at: f64,
    pub text: String,
}

/// What the peak is, and where.
pub(super) struct PeakLabel {
    pub x: f64,
    pub y: f64,
    pub anchor: &'static str,
    pub text: String,
}

/// What the budget is, and where.
pub(super) struct BudgetLabel {
    /// Where the line lies; none where it would lie far above the drawing.
    pub y: Option<f64>,
    pub text_x: f64,
    pub text_y: f64,
    pub anchor: &'static str,
    pub text: String,
}

/// The names for which there is room: the one at the peak first, then those of the widest segments.
pub(super) fn segment_labels(
    timeline: &Timeline,
    by_segment: &[Stretch<Option<usize>>],
    scale: &Scale,
) -> Vec<SegmentLabel> {
    let peak = timeline.peak_index();
    let mut wanted: Vec<_> = by_segment.iter().collect();
    wanted.sort_by_key(|stretch| (!stretch.events.contains(&peak), Reverse(stretch.events.len())));
    let mut names: Vec<SegmentLabel> = Vec::new();
    for stretch in wanted {
        let at = (scale.x(stretch.events.start) + scale.x(stretch.events.end)) / 2.0;
        if let Some(name) = segment_name(timeline, stretch.key)
            && names.iter().all(|other| (other.at - at).abs() >= NAME_DISTANCE)
        {
            names.push(SegmentLabel { at, text: shortened(name) });
        }
    }
    names
}

/// The beginning and the end of a long name: where names of segments differ.
fn shortened(name: &str) -> String {
    let letters = name.chars().count();
    if letters <= LONGEST_NAME {
        return name.to_string();
    }
    let (head, tail) = (LONGEST_NAME / 2 - 1, LONGEST_NAME / 2);
    name.chars().take(head).chain(['…']).chain(name.chars().skip(letters - tail)).collect()
}

impl PeakLabel {
    pub fn new(timeline: &Timeline, scale: &Scale) -> Self {
        let index = timeline.peak_index();
        let event = &timeline.events[index];
        let x = peak_x(timeline, scale);
        let segment = segment_name(timeline, event.segment).map(shortened);
        let segment = segment.map_or(String::new(), |segment| format!(" in {segment}"));
        let size = size_text(event.during);
        Self {
            x,
            y: scale.y(event.during.get()),
            anchor: if is_left(x) { "start" } else { "end" },
            text: format!("peak {size}: {}{segment}, {}", shortened(&event.operation), event.phase),
        }
    }
}

impl BudgetLabel {
    /// Its text stands on the side where the peak does not; where the peak's name comes near, in a line of its own.
    pub fn new(budget: u64, near: bool, peak: &PeakLabel, scale: &Scale) -> Self {
        let y = near.then(|| scale.y(budget));
        let size = size_text(Bytes(budget));
        let text = if near { format!("budget {size}") } else { format!("budget {size}, far above") };
        let peak_is_left = is_left(peak.x);
        let (text_x, anchor) = if peak_is_left { (RIGHT - 4.0, "end") } else { (LEFT + 4.0, "start") };
        let wanted_y = y.map_or(PEAK_LINE, |y| y - 6.0);
        let room = if peak_is_left { text_x - peak.x } else { peak.x - text_x };
        let meet = room < width(&peak.text) + width(&text) + LETTER && (wanted_y - PEAK_LINE).abs() < LINE;
        let below = y.map_or(PEAK_LINE + LINE + 4.0, |y| y + LINE);
        let text_y = if meet { below } else { wanted_y };
        Self { y, text_x, text_y, anchor, text }
    }
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The middle of the event at the peak.
fn peak_x(timeline: &Timeline, scale: &Scale) -> f64 {
    let index = timeline.peak_index();
    (scale.x(index) + scale.x(index + 1)) / 2.0
}

fn is_left(x: f64) -> bool {
    x < (LEFT + RIGHT) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::events::stretches;
    use super::super::timeline_chart::tests::of_heights;
    use super::*;

    #[test]
    fn names_do_not_stand_on_each_other_and_the_peak_has_one() {
        let mut timeline = of_heights(&vec![1; 900]);
        timeline.segments = (0..300).map(|segment| format!("decoder.level_{segment}.residual_block_0")).collect();
        for (index, event) in timeline.events.iter_mut().enumerate() {
            event.segment = Some(index / 3);
        }
        timeline.events[500].during = Bytes(2);
        let by_segment = stretches(&timeline.events, |event| event.segment);
        let scale = Scale::new(&[1.0; 900], 2);
        let labels = segment_labels(&timeline, &by_segment, &scale);
        let mut places: Vec<f64> = labels.iter().map(|label| label.at).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.len() > 20 && places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_DISTANCE));
        assert_eq!(labels[0].at, (scale.x(498) + scale.x(501)) / 2.0);
        assert_eq!(labels[0].text, "decoder.level…sidual_block_0");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("decoder.level_2.attention"), "decoder.level_2.attention");
        assert_eq!(shortened(&"ä".repeat(29)), format!("{0}ä…{0}ä", "ä".repeat(12)) + "ä");
        assert_eq!(shortened(&"ä".repeat(29)).chars().count(), LONGEST_NAME);
    }

    #[test]
    fn the_budget_is_written_where_the_peak_is_not() {
        let label = |heights: &[u64]| {
            let (timeline, scale) = (of_heights(heights), Scale::new(&vec![1.0; heights.len()], 10));
            let peak = PeakLabel::new(&timeline, &scale);
            let budget = BudgetLabel::new(10, true, &peak, &scale);
            (peak.anchor, budget.anchor, budget.text_x)
        };
        assert_eq!(label(&[9, 1, 1, 1]), ("start", "end", RIGHT - 4.0));
        assert_eq!(label(&[1, 1, 1, 9]), ("end", "start", LEFT + 4.0));
    }

    #[test]
    fn a_budget_that_meets_the_name_of_the_peak_goes_below_it() {
        let line = |segment: &str, peak: usize, near: bool| {
            let mut timeline = of_heights(&[1; 40]);
            timeline.segments = vec![segment.to_string()];
            (timeline.events[peak].during, timeline.events[peak].segment) = (Bytes(2), Some(0));
            timeline.events[peak].operation = "conv3d_weight_gradient".to_string();
            let scale = Scale::new(&[1.0; 40], 2);
            BudgetLabel::new(if near { 2 } else { 9 }, near, &PeakLabel::new(&timeline, &scale), &scale).text_y
        };
        let (long, short) = ("decoder.level_2.attention", "out");
        for near in [false, true] {
            let (beside, below) = if near { (TOP - 6.0, TOP + LINE) } else { (PEAK_LINE, PEAK_LINE + LINE + 4.0) };
            assert_eq!([line(long, 19, near), line(long, 20, near)], [below; 2]);
            assert_eq!([line(long, 0, near), line(short, 39, near)], [beside; 2]);
        }
    }
}

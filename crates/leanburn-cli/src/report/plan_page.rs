//! What a training step will need, as one HTML page that needs no network and no other file.

use super::error::ReportError;
use super::events::{colour, segment_name};
use super::memory::{Bar, MemoryPeak, MemoryRow, size_text};
use super::timeline_chart::timeline_chart;
use askama::Template;
use leanburn_common::Bytes;
use leanburn_plan::{Block, Cause, Class, Timeline};
use std::cmp::Reverse;

/// So many segments have a row of their own.
const MOST_SEGMENTS: usize = 20;
/// The smallest share of what the step needs that has a row of its own.
const SMALLEST_SHARE: f64 = 0.004;
/// So many blocks are listed.
const MOST_BLOCKS: usize = 10;

/// What the page of a plan shows. Parts that are empty are left out.
#[derive(Clone, Debug, Default)]
pub struct PlanPage {
    /// Name of the configuration: the heading.
    pub title: String,
    /// Names and values at the top, such as the device, the shape of a batch, the precision.
    pub summary: Vec<(String, String)>,
    /// The memory of the step.
    pub timeline: Timeline,
    /// Shape and element type of each block, in the order of [`Timeline::blocks`], such as `f32 [1, 32, 64, 64, 64]`;
    /// empty where unknown, and shorter than the blocks where the rest is unknown.
    pub shapes: Vec<String>,
    /// What is held all the time in addition to the blocks of the timeline, such as the context of a device. It counts.
    pub other_bytes: Vec<(String, Bytes)>,
    /// The memory that the step may use, if it was given.
    pub budget: Option<Bytes>,
    /// Predictions and measurements.
    pub predictions: Vec<PredictionRow>,
    /// What would lower the peak; shown with lossless changes first, otherwise in the given order.
    pub advice: Vec<Advice>,
    /// What to know when reading the page, a sentence each.
    pub warnings: Vec<String>,
    /// What the prediction leaves out, one item each, such as `code and threads of the process`.
    pub not_counted: Vec<String>,
}

/// A predicted size and what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionRow {
    /// What was measured, such as `peak of the backward pass`.
    pub name: String,
    /// The planner's prediction.
    pub predicted: Bytes,
    /// What a real step needed.
    pub measured: Bytes,
}

/// A change that would lower the peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What the change does to the training.
    pub class: Class,
    /// What to change, what it saves and what it costs.
    pub text: String,
}

impl PlanPage {
    /// Renders the page. All texts are escaped; there are no scripts.
    ///
    /// # Errors
    ///
    /// When the template cannot be rendered.
    pub fn render(&self) -> Result<String, ReportError> {
        let other_bytes = self.other_bytes();
        let budget = self.budget.map(|budget| Bytes(budget.get().saturating_sub(other_bytes)));
        let mut advice: Vec<_> = self.advice.iter().collect();
        advice.sort_by_key(|advice| advice.class);
        let (rows, colours) = self.causes();
        let mut bar = Bar::new(&rows, &MemoryPeak { budget: self.budget, ..MemoryPeak::default() });
        bar.segments.iter_mut().zip(colours).for_each(|(segment, colour)| segment.colour = colour);
        let page = Page {
            plan: self,
            fit_check: FitCheck::new(self.need(), self.budget),
            peak: self.peak(),
            other_bytes: (other_bytes > 0).then(|| size_text(Bytes(other_bytes))),
            chart: timeline_chart(&self.timeline, budget)?,
            bar,
            segments: self.segments(),
            blocks: self.blocks(),
            predictions: self.predictions.iter().map(Difference::new).collect(),
            advice,
        };
        Ok(page.render()?)
    }

    fn other_bytes(&self) -> u64 {
        self.other_bytes.iter().map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add)
    }

    /// All that the step needs at its peak.
    fn need(&self) -> u64 {
        self.timeline.peak().get().saturating_add(self.other_bytes())
    }

    fn peak(&self) -> Option<Peak<'_>> {
        let index = self.timeline.peak_index();
        let event = self.timeline.events.get(index)?;
        Some(Peak {
            operation: &event.operation,
            segment: segment_name(&self.timeline, event.segment),
            phase: event.phase.to_string(),
            place: index + 1,
            count: self.timeline.events.len(),
        })
    }

    /// The causes at the peak and other bytes, with their shares as notes; and the colours.
    fn causes(&self) -> (Vec<MemoryRow>, Vec<&'static str>) {
        let row = |cause: String, bytes| MemoryRow { cause, bytes: Bytes(bytes), note: share(bytes, self.need()) };
        let causes = self.timeline.causes_at(self.timeline.peak_index()).into_iter();
        let causes = causes.map(|(cause, bytes)| (row(cause.to_string(), bytes.get()), colour(cause)));
        let other_bytes = self.other_bytes.iter().map(|(name, bytes)| (row(name.clone(), bytes.get()), "var(--faint)"));
        causes.chain(other_bytes).unzip()
    }

    /// The largest segments at the peak, and what belongs to none of them; shares are of all that the step needs, as for causes.
    fn segments(&self) -> Vec<Line> {
        let peak = self.timeline.peak_index();
        let Some(event) = self.timeline.events.get(peak) else { return Vec::new() };
        let all = self.timeline.segments_at(peak);
        let whole = self.need();
        let large = all.iter().filter(|(_, bytes)| bytes.get() as f64 >= SMALLEST_SHARE * whole as f64).count();
        let (shown, others) = all.split_at(large.min(MOST_SEGMENTS));
        let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(0, u64::saturating_add);
        let none = self.timeline.blocks_at(peak).filter(|block| block.segment.is_none());
        let rest = [
            (format!("{} smaller", others.len()), sum(&mut others.iter().map(|(_, bytes)| bytes.get()))),
            ("in no segment".to_string(), sum(&mut none.map(|block| block.bytes.get()))),
            (format!("workspace of {}", event.operation), event.workspace.get()),
            (Cause::GraphMetadata.to_string(), event.graph_metadata.get()),
        ];
        let shown = shown.iter().map(|(name, bytes)| Line::new(name.to_string(), bytes.get(), whole));
        let rest = rest.into_iter().filter(|(_, bytes)| *bytes > 0);
        shown.chain(rest.map(|(name, bytes)| Line::new(name, bytes, whole))).collect()
    }

    /// The largest blocks at the peak.
    fn blocks(&self) -> Vec<BlockRow<'_>> {
        let peak = self.timeline.peak_index();
        let all = self.timeline.blocks.iter().enumerate();
        let mut there: Vec<_> = all.filter(|(_, block)| (block.born..=block.last).contains(&peak)).collect();
        there.sort_by_key(|(_, block)| Reverse(block.bytes));
        there.truncate(MOST_BLOCKS);
        there.into_iter().map(|(index, block)| self.block(index, block)).collect()
    }

    fn block(&self, index: usize, block: &Block) -> BlockRow<'_> {
        BlockRow {
            colour: colour(block.cause),
            cause: block.cause.to_string(),
            size: size_text(block.bytes),
            segment: segment_name(&self.timeline, block.segment).unwrap_or_default(),
            shape: self.shapes.get(index).map_or("", String::as_str),
            life: life(block, &self.timeline),
        }
    }
}

/// When a block is there, in words; events are counted from 1.
fn life(block: &Block, timeline: &Timeline) -> String {
    let name = |index: usize| {
        let event = timeline.events.get(index);
        event.map_or(String::new(), |event| format!(" ({}, {})", event.operation, event.phase))
    };
    let last = format!("{}{}", block.last + 1, name(block.last));
    match (block.born, block.last + 1 >= timeline.events.len()) {
        (0, true) => "the whole step".to_string(),
        (0, false) => format!("from the start to {last}"),
        (born, true) => format!("{}{} to the end", born + 1, name(born)),
        (born, false) if born == block.last => last,
        (born, false) => format!("{}{} to {last}", born + 1, name(born)),
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[derive(Template)]
#[template(path = "plan.html")]
struct Page<'a> {
    plan: &'a PlanPage,
    fit_check: FitCheck,
    peak: Option<Peak<'a>>,
    /// Size of what is held in addition to the timeline, if it is anything.
    other_bytes: Option<String>,
    chart: String,
    bar: Bar<'a>,
    segments: Vec<Line>,
    blocks: Vec<BlockRow<'a>>,
    predictions: Vec<Difference<'a>>,
    advice: Vec<&'a Advice>,
}

/// Whether the step fits.
struct FitCheck {
    /// CSS class.
    class: &'static str,
    word: &'static str,
    detail: String,
}

impl FitCheck {
    fn new(need: u64, budget: Option<Bytes>) -> Self {
        let needs = format!("The step needs {}", size_text(Bytes(need)));
        let Some(budget) = budget else {
            return Self { class: "open", word: "No budget given", detail: format!("{needs}.") };
        };
        let (size, budget) = (size_text(budget), budget.get());
        let margin = budget.abs_diff(need);
        let margin = format!("{} ({} of the budget)", size_text(Bytes(margin)), share(margin, budget));
        match need <= budget {
            true => Self { class: "fits", word: "Fits", detail: format!("{needs} of {size}; {margin} to spare.") },
            false => {
                Self { class: "over", word: "Does not fit", detail: format!("{needs} of {size}; {margin} too much.") }
            }
        }
    }
}

/// Where the peak stands; events are counted from 1.
struct Peak<'a> {
    operation: &'a str,
    segment: Option<&'a str>,
    phase: String,
    place: usize,
    count: usize,
}

/// A row of the table of segments.
struct Line {
    name: String,
    size: String,
    share: String,
}

impl Line {
    fn new(name: String, bytes: u64, whole: u64) -> Self {
        Self { name, size: size_text(Bytes(bytes)), share: share(bytes, whole) }
    }
}

/// A row of the table of blocks.
struct BlockRow<'a> {
    colour: &'static str,
    cause: String,
    size: String,
    segment: &'a str,
    shape: &'a str,
    life: String,
}

/// A row of the table of predictions.
struct Difference<'a> {
    name: &'a str,
    predicted: String,
    measured: String,
    /// Of the prediction from the measurement, in percent of the measurement.
    difference: String,
}

impl<'a> Difference<'a> {
    fn new(row: &'a PredictionRow) -> Self {
        let (predicted, measured) = (row.predicted.get() as f64, row.measured.get() as f64);
        let percent = 100.0 * (predicted - measured) / measured;
        Self {
            name: &row.name,
            predicted: size_text(row.predicted),
            measured: size_text(row.measured),
            difference: if measured > 0.0 { format!("{percent:+.2} %") } else { String::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::handmade;
    use super::*;

    const HOSTILE: &str = "<script>alert(\"1\" & '2')</script>";

    /// A page whose every text is hostile.
    fn hostile() -> PlanPage {
        let text = || HOSTILE.to_string();
        let mut timeline = handmade();
        timeline.segments = vec![text(), text()];
        timeline.events.iter_mut().for_each(|event| event.operation = text());
        PlanPage {
            title: text(),
            summary: vec![(text(), text())],
            shapes: vec![text(); timeline.blocks.len()],
            timeline,
            other_bytes: vec![(text(), Bytes(10))],
            budget: Some(Bytes(250)),
            predictions: vec![PredictionRow { name: text(), predicted: Bytes(101), measured: Bytes(100) }],
            advice: vec![Advice { class: Class::Model, text: text() }],
            warnings: vec![text()],
            not_counted: vec![text()],
        }
    }

    fn plain() -> PlanPage {
        PlanPage { title: "tiny".to_string(), timeline: handmade(), ..PlanPage::default() }
    }

    #[test]
    fn every_text_is_escaped() {
        let page = hostile().render().unwrap();
        assert!(!page.contains("<script"));
        let found = page.split("alert(").skip(1);
        let escaped = found.map(|rest| rest.starts_with("&#34;1&#34; &#38; &#39;2&#39;)&#60;/script&#62;"));
        let escaped: Vec<bool> = escaped.collect();
        assert!(escaped.len() >= 21 && escaped.iter().all(|escaped| *escaped), "{escaped:?}");
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = hostile().render().unwrap();
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<link", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_fit_check_counts_other_bytes_and_says_the_margin() {
        let fit_check = |budget, other_bytes| {
            let other_bytes = vec![("context".to_string(), Bytes(other_bytes))];
            let page = PlanPage { budget, other_bytes, ..plain() };
            let fit_check = FitCheck::new(page.need(), page.budget);
            assert!(
                page.render().unwrap().contains(&format!("<strong>{}</strong>{}", fit_check.word, fit_check.detail))
            );
            (fit_check.word, fit_check.detail)
        };
        let fits = "The step needs 200 B of 250 B; 50 B (20.0 % of the budget) to spare.";
        assert_eq!(fit_check(Some(Bytes(250)), 10), ("Fits", fits.to_string()));
        let over = "The step needs 260 B of 250 B; 10 B (4.0 % of the budget) too much.";
        assert_eq!(fit_check(Some(Bytes(250)), 70), ("Does not fit", over.to_string()));
        assert_eq!(fit_check(Some(Bytes(190)), 0).0, "Fits");
        assert_eq!(fit_check(None, 0), ("No budget given", "The step needs 190 B.".to_string()));
    }

    #[test]
    fn causes_add_up_to_what_the_step_needs() {
        let page = PlanPage { other_bytes: vec![("context".to_string(), Bytes(10))], ..plain() };
        let (rows, colours) = page.causes();
        let causes: Vec<_> = rows.iter().map(|row| (row.cause.as_str(), row.bytes.get(), row.note.as_str())).collect();
        let expected = [
            ("weights", 100, "50.0 %"),
            ("saved activations", 60, "30.0 %"),
            ("temporaries", 10, "5.0 %"),
            ("workspace", 20, "10.0 %"),
            ("context", 10, "5.0 %"),
        ];
        assert_eq!(causes, expected);
        assert_eq!(colours[1], colour(Cause::SavedActivations));
        assert!(page.render().unwrap().contains("Together</td><td class=\"number\">200 B"));
    }

    #[test]
    fn segments_and_the_rest_add_up_to_the_peak() {
        let named =
            |page: &PlanPage| page.segments().into_iter().map(|line| (line.name, line.size)).collect::<Vec<_>>();
        let expected = [("decoder", 40), ("encoder", 30), ("in no segment", 100), ("workspace of operation_190", 20)];
        assert_eq!(named(&plain()), expected.map(|(name, bytes)| (name.to_string(), format!("{bytes} B"))));

        let mut page = plain();
        page.timeline.segments = (0..25).map(|segment| format!("level_{segment}")).collect();
        let block = |segment| Block {
            bytes: Bytes(100),
            cause: Cause::SavedActivations,
            segment: Some(segment),
            born: 1,
            last: 2,
        };
        page.timeline.blocks.extend((2..25).map(block));
        let lines = named(&page);
        assert_eq!(lines.len(), MOST_SEGMENTS + 3);
        // Three of the 23 large ones and the first two.
        assert_eq!(lines[MOST_SEGMENTS], ("5 smaller".to_string(), "370 B".to_string()));

        let mut page = plain();
        page.other_bytes = vec![("context".to_string(), Bytes(8000))];
        let lines = page.segments();
        let shares: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.share.as_str())).collect();
        // 40 and 30 of 8190 bytes: the second is too little for a row of its own.
        assert_eq!(shares[..2], [("decoder", "0.5 %"), ("1 smaller", "0.4 %")]);
    }

    #[test]
    fn the_largest_blocks_come_first_with_their_lives() {
        let mut page = plain();
        page.shapes = vec!["f32 [25]".to_string()];
        let blocks = page.blocks();
        let first: Vec<_> =
            blocks.iter().map(|block| (block.size.as_str(), block.shape, block.life.as_str())).collect();
        let expected = [
            ("100 B", "f32 [25]", "the whole step"),
            ("30 B", "", "from the start to 3 (operation_190, backward)"),
            ("30 B", "", "2 (operation_160, forward) to 3 (operation_190, backward)"),
            ("10 B", "", "3 (operation_190, backward)"),
        ];
        assert_eq!(first, expected);
        page.timeline.blocks[0].born = 1;
        assert_eq!(page.blocks()[0].life, "2 (operation_160, forward) to the end");
        page.timeline.blocks.extend(vec![page.timeline.blocks[3].clone(); 20]);
        assert_eq!(page.blocks().len(), MOST_BLOCKS);
    }

    #[test]
    fn differences_are_percent_of_the_measurement() {
        let difference = |predicted, measured| {
            let (predicted, measured) = (Bytes(predicted), Bytes(measured));
            Difference::new(&PredictionRow { name: String::new(), predicted, measured }).difference
        };
        let found = [difference(198, 200), difference(203, 200), difference(5, 0)];
        assert_eq!(found, ["-1.00 %", "+1.50 %", ""]);
    }

    #[test]
    fn lossless_advice_comes_first_and_the_peak_is_named() {
        let advice = |class, text: &str| Advice { class, text: text.to_string() };
        let advice = vec![
            advice(Class::Model, "fewer channels"),
            advice(Class::Lossless, "recompute blocks"),
            advice(Class::Numerics, "bf16"),
            advice(Class::Lossless, "smaller micro-batch"),
        ];
        let page = PlanPage { advice, ..plain() }.render().unwrap();
        let places =
            ["recompute blocks", "smaller micro-batch", "bf16", "fewer channels"].map(|text| page.find(text).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        assert!(
            page.contains("<dd>operation_190</dd>")
                && page.contains("<dd>3 of 4</dd>")
                && page.contains("<dd>decoder</dd>")
        );
    }

    #[test]
    fn the_budget_of_the_chart_leaves_out_other_bytes() {
        let other_bytes = vec![("context".to_string(), Bytes(50))];
        let page = PlanPage { other_bytes, budget: Some(Bytes(300)), ..plain() }.render().unwrap();
        assert!(page.contains(">budget 250 B</text>") && page.contains("; 50 B of other memory are held"));
    }

    #[test]
    fn an_empty_plan_is_a_page_without_empty_parts() {
        let page = PlanPage::default().render().unwrap();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(page.contains("no operations to draw") && !page.contains("<table"));
    }
}

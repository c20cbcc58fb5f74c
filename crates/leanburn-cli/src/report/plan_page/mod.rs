//! What a training step will need, as one HTML page that needs no network and no other file.

mod at_peak;
mod fit_check;
mod operations;
mod prediction;

pub use prediction::PredictionRow;

use self::at_peak::{AtPeak, BlockRow, Line, Peak};
use self::fit_check::FitCheck;
use self::operations::{Stage, stages};
use self::prediction::Difference;
use super::error::ReportError;
use super::memory::{Bar, MemoryPeak, size_text};
use super::timeline_chart::timeline_chart;
use askama::Template;
use leanburn_common::Bytes;
use leanburn_plan::{Class, Timeline};

/// What the page of a plan shows. Parts that are empty are left out.
#[derive(Clone, Debug, Default)]
pub struct PlanPage {
    /// Name of the configuration: the heading.
    pub title: String,
    /// Names and values at the top, such as the device, the shape of a batch, the precision.
    pub summary: Vec<(String, String)>,
    /// The memory of the step.
    pub timeline: Timeline,
    /// Planned seconds of each operation of the timeline; empty where they are not known.
    pub seconds: Vec<f64>,
    /// Shape and element type of each block, in the order of [`Timeline::blocks`], such as `f32 [1, 32, 64, 64, 64]`;
    /// empty where unknown, and shorter than the blocks where the rest is unknown.
    pub shapes: Vec<String>,
    /// What is held all the time besides the blocks of the timeline, such as the context of a device. It counts.
    pub other_bytes: Vec<(String, Bytes)>,
    /// The memory that the step may use, if it was given.
    pub budget: Option<Bytes>,
    /// Predictions beside measurements.
    pub predictions: Vec<PredictionRow>,
    /// What would lower the peak; shown with lossless changes first, otherwise in the given order.
    pub advice: Vec<Advice>,
    /// What to know when reading the page, a sentence each.
    pub warnings: Vec<String>,
    /// What the prediction leaves out, one item each, such as `code and threads of the process`.
    pub not_counted: Vec<String>,
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
        let at_peak = self.at_peak();
        let other_bytes = at_peak.other_bytes();
        let budget = self.budget.map(|budget| Bytes(budget.get().saturating_sub(other_bytes)));
        let mut advice: Vec<_> = self.advice.iter().collect();
        advice.sort_by_key(|advice| advice.class);
        let (rows, colours) = at_peak.causes();
        let mut bar = Bar::new(&rows, &MemoryPeak { budget: self.budget, ..MemoryPeak::default() });
        bar.segments.iter_mut().zip(colours).for_each(|(segment, colour)| segment.colour = colour);
        let page = Page {
            plan: self,
            fit_check: FitCheck::new(at_peak.need(), self.budget),
            peak: at_peak.place(),
            other_bytes: (other_bytes > 0).then(|| size_text(Bytes(other_bytes))),
            chart: timeline_chart(&self.timeline, &self.seconds, budget)?,
            bar,
            segments: at_peak.segments(),
            blocks: at_peak.blocks(),
            stages: stages(&self.timeline, &self.seconds),
            predictions: self.predictions.iter().map(Difference::new).collect(),
            advice,
        };
        Ok(page.render()?)
    }

    fn at_peak(&self) -> AtPeak<'_> {
        AtPeak { timeline: &self.timeline, other_bytes: &self.other_bytes, shapes: &self.shapes }
    }
}

#[derive(Template)]
#[template(path = "plan.html")]
struct Page<'a> {
    plan: &'a PlanPage,
    fit_check: FitCheck,
    peak: Option<Peak<'a>>,
    /// Size of what is held besides the timeline, if it is anything.
    other_bytes: Option<String>,
    chart: String,
    bar: Bar<'a>,
    segments: Vec<Line>,
    blocks: Vec<BlockRow<'a>>,
    /// The operations, part by part.
    stages: Vec<Stage<'a>>,
    predictions: Vec<Difference<'a>>,
    advice: Vec<&'a Advice>,
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
            seconds: vec![1.0; timeline.events.len()],
            timeline,
            other_bytes: vec![(text(), Bytes(10))],
            budget: Some(Bytes(250)),
            predictions: vec![PredictionRow { name: text(), predicted: Bytes(101), measured: Bytes(100) }],
            advice: vec![Advice { class: Class::Model, text: text() }],
            warnings: vec![text()],
            not_counted: vec![text()],
        }
    }

    pub(super) fn plain() -> PlanPage {
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
    fn the_budget_of_the_chart_leaves_out_what_is_beyond() {
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

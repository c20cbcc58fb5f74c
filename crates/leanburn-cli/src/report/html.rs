//! The report of a run as one HTML page that needs no network and no other file.

use super::chart::{Chart, Drawing};
use super::error::ReportError;
use super::memory::{Bar, MemoryPeak, MemoryRow};
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a report shows. Parts that are empty are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// Names and values at the top: the outcome at a glance.
    pub summary: Vec<(String, String)>,
    /// Losses and other metrics over the steps.
    pub curves: Vec<Chart>,
    /// Pictures in the order of their steps; a slider moves through them.
    pub pictures: Vec<Picture>,
    /// Memory at the peak, by cause.
    pub memory: Vec<MemoryRow>,
    /// The predicted and the measured peak, and the budget.
    pub memory_peak: MemoryPeak,
    /// The configuration that the run used, as YAML.
    pub config_yaml: String,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
}

/// A picture, such as a [`comparison`](leanburn_systems::picture::comparison()) at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Which of the pictures it is, such as the step that it was taken at.
    pub title: String,
    /// What the picture shows.
    pub caption: String,
    /// The picture, encoded as PNG.
    pub png: Vec<u8>,
}

impl Report {
    /// Renders the page. All texts are escaped; the page works without scripts, where all pictures
    /// stand below each other.
    ///
    /// # Errors
    ///
    /// When the template cannot be rendered.
    pub fn render(&self) -> Result<String, ReportError> {
        let charts = self.curves.iter().map(|chart| {
            let drawing = Drawing::new(chart).render()?;
            Ok((chart.title.as_str(), drawing))
        });
        let page = Page {
            report: self,
            charts: charts.collect::<Result<_, askama::Error>>()?,
            bar: Bar::new(&self.memory, &self.memory_peak),
            pictures: self.pictures.iter().map(|picture| (picture, STANDARD.encode(&picture.png))).collect(),
        };
        Ok(page.render()?)
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a Report,
    /// Title and SVG.
    charts: Vec<(&'a str, String)>,
    bar: Bar<'a>,
    /// A picture and its PNG in base64.
    pictures: Vec<(&'a Picture, String)>,
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;
    use leanburn_common::Bytes;

    const HOSTILE: &str = "<script>alert(\"1\" & '2')</script>";

    /// A report whose every text is hostile.
    fn report() -> Report {
        let text = || HOSTILE.to_string();
        let points = vec![(0.0, 1.0), (10.0, 0.5)];
        Report {
            title: text(),
            summary: vec![(text(), text())],
            curves: vec![Chart {
                title: text(),
                y_label: text(),
                log_y: false,
                series: vec![Series { name: text(), points }],
            }],
            pictures: vec![Picture { title: text(), caption: text(), png: b"png".to_vec() }],
            memory: vec![MemoryRow { cause: text(), bytes: Bytes::gib(1), note: text() }],
            memory_peak: MemoryPeak { measured: Some(Bytes::mib(1536)), ..MemoryPeak::default() },
            config_yaml: text(),
            notes: vec![text()],
        }
    }

    #[test]
    fn every_text_is_escaped() {
        let page = report().render().unwrap();
        assert!(!page.contains(HOSTILE) && !page.contains("<script>alert"));
        let found = page.split("alert(").skip(1);
        let escaped = found.map(|rest| rest.starts_with("&#34;1&#34; &#38; &#39;2&#39;)&#60;/script&#62;"));
        let escaped: Vec<bool> = escaped.collect();
        assert!(escaped.len() >= 13 && escaped.iter().all(|escaped| *escaped), "{escaped:?}");
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = report().render().unwrap();
        for outside in ["http:", "https:", "src=\"//", "url(", "@import", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
        let sources = page.split("src=\"").skip(1);
        let data = sources.map(|rest| rest.starts_with("data:image/png;base64,"));
        assert_eq!(data.collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn shows_sizes_pictures_and_peak() {
        let page = report().render().unwrap();
        assert!(page.contains("1.00 GiB") && page.contains("1.50 GiB"));
        assert!(page.contains("base64,cG5n\""));
    }

    #[test]
    fn an_empty_report_is_a_page_without_empty_parts() {
        let page = Report::default().render().unwrap();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        for part in ["<section", "<table", "<svg", "<img"] {
            assert!(!page.contains(part), "{part}");
        }
    }
}

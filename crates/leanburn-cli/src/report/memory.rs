//! Memory by cause: the rows of the table and the stacked bar above it.

use bytesize::ByteSize;
use leanburn_common::Bytes;

/// Colours of the bar's segments and of the curves; they read well on light and on dark.
pub(super) const COLOURS: [&str; 8] =
    ["#4c78d0", "#e07b39", "#2f9e77", "#c94f7c", "#8a63d2", "#b8942b", "#3aa5c4", "#8c8c94"];

/// One cause of memory use, such as the weights or the activations saved for the backward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// What takes the memory.
    pub cause: String,
    /// How much it takes at the peak.
    pub bytes: Bytes,
    /// A warning, such as how to make it smaller; may be empty.
    pub note: String,
}

/// The peak of a run: what the planner predicted, what was measured, what was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPeak {
    /// The planner's prediction.
    pub predicted: Option<Bytes>,
    /// The largest use measured.
    pub measured: Option<Bytes>,
    /// The memory that the run was given.
    pub budget: Option<Bytes>,
}

impl MemoryPeak {
    /// The values that are known, with their names.
    pub(super) fn known(&self) -> Vec<(&'static str, Bytes)> {
        let all = [("predicted", self.predicted), ("measured", self.measured), ("budget", self.budget)];
        let known = all.into_iter();
        known.filter_map(|(name, bytes)| Some((name, bytes?))).collect()
    }
}

/// A row of the memory table with its colour and its share of the bar.
pub(super) struct Segment<'a> {
    pub row: &'a MemoryRow,
    pub size: String,
    pub colour: &'static str,
    /// Percent of the bar.
    pub percent: f64,
}

/// A mark on the bar: a peak, or the budget.
pub(super) struct Mark {
    pub name: &'static str,
    pub size: String,
    /// Percent of the bar.
    pub percent: f64,
}

/// The bar: segments side by side, and marks on the same scale.
pub(super) struct Bar<'a> {
    pub segments: Vec<Segment<'a>>,
    pub marks: Vec<Mark>,
    /// The sum of the rows.
    pub total: String,
}

impl<'a> Bar<'a> {
    /// Lays the bar out so that the longest of total, peaks and budget fills it.
    pub fn new(rows: &'a [MemoryRow], peak: &MemoryPeak) -> Self {
        let sizes = rows.iter().map(|row| row.bytes.get());
        let total = sizes.fold(0, u64::saturating_add);
        let marks = peak.known();
        let longest = marks.iter().map(|(_, bytes)| bytes.get()).fold(total, u64::max);
        let percent = |bytes: Bytes| bytes.get() as f64 * 100.0 / longest.max(1) as f64;
        let segments = rows.iter().zip(COLOURS.into_iter().cycle());
        Self {
            segments: segments
                .map(|(row, colour)| Segment { row, size: size_text(row.bytes), colour, percent: percent(row.bytes) })
                .collect(),
            marks: marks
                .into_iter()
                .map(|(name, bytes)| Mark { name, size: size_text(bytes), percent: percent(bytes) })
                .collect(),
            total: size_text(Bytes(total)),
        }
    }
}

/// A size for people: `1.50 GiB`, `12.00 KiB`, `512 B`.
pub(super) fn size_text(bytes: Bytes) -> String {
    format!("{:.2}", ByteSize::b(bytes.get()).display().iec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(gib: u64) -> MemoryRow {
        MemoryRow { cause: "weights".to_string(), bytes: Bytes::gib(gib), note: String::new() }
    }

    #[test]
    fn sizes_print_with_two_decimals() {
        assert_eq!(size_text(Bytes(512)), "512 B");
        assert_eq!(size_text(Bytes::kib(12)), "12.00 KiB");
        assert_eq!(size_text(Bytes::mib(1536)), "1.50 GiB");
    }

    #[test]
    fn the_longest_of_total_and_marks_fills_the_bar() {
        let rows = [row(1), row(3)];
        let bar = Bar::new(&rows, &MemoryPeak::default());
        assert_eq!((bar.segments[0].percent, bar.segments[1].percent), (25.0, 75.0));
        assert_eq!(bar.total, "4.00 GiB");
        let budget = Some(Bytes::gib(8));
        let peak = MemoryPeak { budget, ..MemoryPeak::default() };
        let bar = Bar::new(&rows, &peak);
        assert_eq!((bar.segments[0].percent, bar.marks[0].percent), (12.5, 100.0));
    }

    #[test]
    fn empty_and_absurd_sizes_do_not_overflow() {
        let nothing = [row(0)];
        assert_eq!(Bar::new(&nothing, &MemoryPeak::default()).segments[0].percent, 0.0);
        let mut rows = [row(1), row(1)];
        rows[0].bytes = Bytes(u64::MAX);
        let bar = Bar::new(&rows, &MemoryPeak::default());
        assert_eq!(bar.segments[0].percent, 100.0);
    }
}

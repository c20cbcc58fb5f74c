//! What is held at the peak of a step: by cause, by segment, and the largest blocks.

use std::cmp::Reverse;

use leanburn_common::Bytes;
use leanburn_plan::{Block, Cause, Timeline};

use crate::report::events::{colour, segment_name};
use crate::report::memory::{MemoryRow, size_text};

/// So many segments have a row of their own.
const MOST_SEGMENTS: usize = 20;
/// The smallest share of what the step needs that has a row of its own.
const SMALLEST_SHARE: f64 = 0.004;
/// So many blocks are listed.
const MOST_BLOCKS: usize = 10;

/// A step at its peak.
pub(super) struct AtPeak<'a> {
    pub timeline: &'a Timeline,
    /// What is held all the time besides the timeline.
    pub other_bytes: &'a [(String, Bytes)],
    /// The shape of each block, where known.
    pub shapes: &'a [String],
}

impl<'a> AtPeak<'a> {
    /// Size of what is held besides the timeline.
    pub fn other_bytes(&self) -> u64 {
        self.other_bytes.iter().map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add)
    }

    /// All that the step needs at its peak.
    pub fn need(&self) -> u64 {
        self.timeline.peak().get().saturating_add(self.other_bytes())
    }

    /// Where it stands.
    pub fn place(&self) -> Option<Peak<'a>> {
        let index = self.timeline.peak_index();
        let event = self.timeline.events.get(index)?;
        Some(Peak {
            operation: &event.operation,
            segment: segment_name(self.timeline, event.segment),
            phase: event.phase.to_string(),
            place: index + 1,
            count: self.timeline.events.len(),
        })
    }

    /// The causes at the peak and what is held besides, with their shares as notes; and the colours.
    pub fn causes(&self) -> (Vec<MemoryRow>, Vec<&'static str>) {
        let row = |cause: String, bytes| MemoryRow { cause, bytes: Bytes(bytes), note: share(bytes, self.need()) };
        let causes = self.timeline.causes_at(self.timeline.peak_index()).into_iter();
        let causes = causes.map(|(cause, bytes)| (row(cause.to_string(), bytes.get()), colour(cause)));
        let other_bytes = self.other_bytes.iter().map(|(name, bytes)| (row(name.clone(), bytes.get()), "var(--faint)"));
        causes.chain(other_bytes).unzip()
    }

    /// The largest segments at the peak, and what belongs to none of them; shares are of all that the step needs, as for causes.
    pub fn segments(&self) -> Vec<Line> {
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
    pub fn blocks(&self) -> Vec<BlockRow<'a>> {
        let peak = self.timeline.peak_index();
        let all = self.timeline.blocks.iter().enumerate();
        let mut there: Vec<_> = all.filter(|(_, block)| (block.born..=block.last).contains(&peak)).collect();
        there.sort_by_key(|(_, block)| Reverse(block.bytes));
        there.truncate(MOST_BLOCKS);
        there.into_iter().map(|(index, block)| self.block(index, block)).collect()
    }

    fn block(&self, index: usize, block: &'a Block) -> BlockRow<'a> {
        BlockRow {
            colour: colour(block.cause),
            cause: block.cause.to_string(),
            size: size_text(block.bytes),
            segment: segment_name(self.timeline, block.segment).unwrap_or_default(),
            shape: self.shapes.get(index).map_or("", String::as_str),
            life: life(block, self.timeline),
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

/// A part in percent of the whole.
pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Where the peak stands; events are counted from 1.
pub(super) struct Peak<'a> {
    pub operation: &'a str,
    pub segment: Option<&'a str>,
    pub phase: String,
    pub place: usize,
    pub count: usize,
}

/// A row of the table of segments.
pub(super) struct Line {
    pub name: String,
    pub size: String,
    pub share: String,
}

impl Line {
    pub fn new(name: String, bytes: u64, whole: u64) -> Self {
        Self { name, size: size_text(Bytes(bytes)), share: share(bytes, whole) }
    }
}

/// A row of the table of blocks.
pub(super) struct BlockRow<'a> {
    pub colour: &'static str,
    pub cause: String,
    pub size: String,
    pub segment: &'a str,
    pub shape: &'a str,
    pub life: String,
}

#[cfg(test)]
mod tests {
    use super::super::PlanPage;
    use super::super::tests::plain;
    use super::*;

    #[test]
    fn causes_add_up_to_what_the_step_needs() {
        let page = PlanPage { other_bytes: vec![("context".to_string(), Bytes(10))], ..plain() };
        let (rows, colours) = page.at_peak().causes();
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
        let named = |page: &PlanPage| {
            page.at_peak().segments().into_iter().map(|line| (line.name, line.size)).collect::<Vec<_>>()
        };
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
        let lines = page.at_peak().segments();
        let shares: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.share.as_str())).collect();
        // 40 and 30 of 8190 bytes: the second is too little for a row of its own.
        assert_eq!(shares[..2], [("decoder", "0.5 %"), ("1 smaller", "0.4 %")]);
    }

    #[test]
    fn the_largest_blocks_come_first_with_their_lives() {
        let mut page = plain();
        page.shapes = vec!["f32 [25]".to_string()];
        let blocks = page.at_peak().blocks();
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
        assert_eq!(page.at_peak().blocks()[0].life, "2 (operation_160, forward) to the end");
        page.timeline.blocks.extend(vec![page.timeline.blocks[3].clone(); 20]);
        assert_eq!(page.at_peak().blocks().len(), MOST_BLOCKS);
    }
}

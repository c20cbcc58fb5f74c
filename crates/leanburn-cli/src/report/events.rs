//! The events of a step as its pictures need them: bytes by cause, and stretches of one phase or segment.

use leanburn_plan::{Cause, OperationEvent, Timeline};
use std::ops::Range;

/// Bytes of each cause, in the order of [`Cause::ALL`].
pub(super) type CauseBytes = [u64; Cause::ALL.len()];

/// Events that follow each other and have something in common.
pub(super) struct Stretch<K> {
    /// What they have in common.
    pub key: K,
    /// Their indices.
    pub events: Range<usize>,
}

/// The colour of a cause. Any two can be distinguished also by people who see no red, no green or no blue, and read well
/// on light and on dark.
pub(super) fn colour(cause: Cause) -> &'static str {
    match cause {
        Cause::Weights => "#166b1f",
        Cause::Gradients => "#e0cc5e",
        Cause::Optimizer => "#703c90",
        Cause::Average => "#3ee1fe",
        Cause::Frozen => "#7d4a12",
        Cause::Batch => "#aa5f80",
        Cause::SavedActivations => "#6475db",
        Cause::Temporaries => "#e67e30",
        Cause::GraphMetadata => "#68a0f4",
        _ => "#a4a3ab",
    }
}

/// What [`Timeline::causes_at`] says of every event, in one pass over the blocks.
pub(super) fn cause_bytes(timeline: &Timeline) -> Vec<CauseBytes> {
    let count = timeline.events.len();
    let mut bytes = vec![CauseBytes::default(); count];
    let mut gone = bytes.clone();
    for block in timeline.blocks.iter().filter(|block| block.born <= block.last && block.born < count) {
        let cause = place(block.cause);
        add(&mut bytes[block.born][cause], block.bytes.get());
        if let Some(gone) = gone.get_mut(block.last.saturating_add(1)) {
            add(&mut gone[cause], block.bytes.get());
        }
    }
    for index in 1..count {
        for cause in 0..Cause::ALL.len() {
            let still_there = bytes[index - 1][cause].wrapping_sub(gone[index][cause]);
            add(&mut bytes[index][cause], still_there);
        }
    }
    for (bytes, event) in bytes.iter_mut().zip(&timeline.events) {
        add(&mut bytes[place(Cause::Workspace)], event.workspace.get());
        add(&mut bytes[place(Cause::GraphMetadata)], event.graph_metadata.get());
    }
    bytes
}

/// Adds; sums that no machine could hold wrap around.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.wrapping_add(bytes);
}

/// Index of a cause in [`Cause::ALL`].
fn place(cause: Cause) -> usize {
    Cause::ALL.iter().position(|other| *other == cause).unwrap_or(Cause::ALL.len() - 1)
}

/// The events, cut wherever the key changes.
pub(super) fn stretches<K: PartialEq>(
    events: &[OperationEvent],
    key: impl Fn(&OperationEvent) -> K,
) -> Vec<Stretch<K>> {
    let mut start = 0;
    let alike = events.chunk_by(|a, b| key(a) == key(b));
    alike
        .map(|part| {
            let events = start..start + part.len();
            start = events.end;
            Stretch { key: key(&part[0]), events }
        })
        .collect()
}

/// A segment and those around it, the outermost first.
pub(super) fn ancestry(timeline: &Timeline, segment: Option<usize>) -> Vec<usize> {
    let parent = |segment: &usize| timeline.parents.get(*segment).copied().flatten();
    let mut ancestry: Vec<usize> = std::iter::successors(segment, parent).take(timeline.segments.len()).collect();
    ancestry.reverse();
    ancestry
}

/// The name of a segment, if there is one.
pub(super) fn segment_name(timeline: &Timeline, segment: Option<usize>) -> Option<&str> {
    timeline.segments.get(segment?).map(String::as_str)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use leanburn_common::Bytes;
    use leanburn_plan::{Block, Phase};

    /// The one place of these tests that knows all fields.
    pub fn event(phase: Phase, segment: Option<usize>, during: u64, workspace: u64) -> OperationEvent {
        let (operation, is_half) = (format!("operation_{during}"), false);
        let (flops, bytes_moved, after) = (during.saturating_mul(10), during.saturating_mul(2), during - workspace);
        let [bytes_moved, during, after, workspace] = [bytes_moved, during, after, workspace].map(Bytes);
        let (repeats, graph_metadata) = (1.0, Bytes(0));
        OperationEvent {
            operation,
            phase,
            segment,
            flops,
            repeats,
            is_half,
            bytes_moved,
            during,
            after,
            workspace,
            graph_metadata,
        }
    }

    fn block(bytes: u64, cause: Cause, segment: Option<usize>, born: usize, last: usize) -> Block {
        Block { bytes: Bytes(bytes), cause, segment, born, last }
    }

    /// Four events; the peak of 190 bytes is the third, event 2.
    pub fn handmade() -> Timeline {
        use Phase::{Backward, Forward, Update};
        Timeline {
            events: vec![
                event(Forward, Some(0), 130, 0),
                event(Forward, Some(1), 160, 0),
                event(Backward, Some(1), 190, 20),
                event(Update, None, 115, 0),
            ],
            blocks: vec![
                block(100, Cause::Weights, None, 0, 3),
                block(30, Cause::SavedActivations, Some(0), 0, 2),
                block(30, Cause::SavedActivations, Some(1), 1, 2),
                block(10, Cause::Temporaries, Some(1), 2, 2),
                block(15, Cause::Gradients, None, 3, 3),
            ],
            segments: vec!["encoder".to_string(), "decoder".to_string()],
            streamable: vec![false; 2],
            parents: vec![None, None],
        }
    }

    #[test]
    fn one_pass_says_what_the_timeline_says_of_every_event() {
        let mut timeline = handmade();
        timeline.events[1].graph_metadata = Bytes(7);
        let all = cause_bytes(&timeline);
        for (index, bytes) in all.iter().enumerate() {
            let named = Cause::ALL.into_iter().zip(*bytes).filter(|(_, bytes)| *bytes > 0);
            let named = named.map(|(cause, bytes)| (cause, Bytes(bytes)));
            assert_eq!(named.collect::<Vec<_>>(), timeline.causes_at(index), "event {index}");
        }
        assert_eq!(all[2], [100, 0, 0, 0, 0, 0, 60, 10, 20, 0]);
        let in_blocks = |cause: &Cause| !matches!(cause, Cause::Workspace | Cause::GraphMetadata);
        for (place, cause) in Cause::ALL.into_iter().enumerate().filter(|(_, cause)| in_blocks(cause)) {
            assert_eq!(timeline.most(cause).get(), all.iter().map(|bytes| bytes[place]).max().unwrap(), "{cause}");
        }
    }

    #[test]
    fn blocks_beyond_the_step_do_no_harm() {
        let mut timeline = handmade();
        timeline.blocks.push(block(7, Cause::Batch, None, 9, 12));
        timeline.blocks.push(block(7, Cause::Batch, None, 3, 0));
        timeline.blocks.push(block(5, Cause::Batch, None, 3, usize::MAX));
        let batch = cause_bytes(&timeline).into_iter().map(|bytes| bytes[place(Cause::Batch)]);
        assert_eq!(batch.collect::<Vec<_>>(), [0, 0, 0, 5]);
        assert!(cause_bytes(&Timeline::default()).is_empty());
    }

    #[test]
    fn stretches_end_where_the_key_changes() {
        let timeline = handmade();
        let phases = stretches(&timeline.events, |event| event.phase);
        let phases: Vec<_> = phases.into_iter().map(|stretch| (stretch.key, stretch.events)).collect();
        assert_eq!(phases, [(Phase::Forward, 0..2), (Phase::Backward, 2..3), (Phase::Update, 3..4)]);
        assert!(stretches(&[], |event| event.phase).is_empty());
    }

    #[test]
    fn ancestry_begins_outside_and_ends_even_in_a_circle() {
        let mut timeline = handmade();
        timeline.parents[1] = Some(0);
        assert_eq!(ancestry(&timeline, Some(1)), [0, 1]);
        assert!(ancestry(&timeline, None).is_empty());
        timeline.parents[0] = Some(1);
        assert_eq!(ancestry(&timeline, Some(1)).len(), 2);
    }

    #[test]
    fn colours_differ() {
        let mut colours = Cause::ALL.map(colour);
        colours.sort_unstable();
        assert!(colours.is_sorted_by(|a, b| a < b), "{colours:?}");
    }

    #[test]
    fn only_segments_that_exist_have_names() {
        let timeline = handmade();
        let names = [Some(1), Some(2), None].map(|segment| segment_name(&timeline, segment));
        assert_eq!(names, [Some("decoder"), None, None]);
    }
}

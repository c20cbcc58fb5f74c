//! The pages that CubeCL's allocator takes from a device.
//!
//! Read off its sources (0.11, the adaptive layout): what is small comes out of pages of its own; everything else out of
//! pages as large as the largest allocation so far and a megabyte, each allocation in the first gap that is wide enough.
//! A page that is empty is kept, so that what is reserved is the most that was ever needed.

use crate::Timeline;

const MIB: u64 = 1 << 20;
/// The largest allocation that counts as small, and the pages that these come out of.
const SMALL: u64 = 64 << 10;
const SMALL_PAGE: u64 = 8 * MIB;
/// The smallest page of the others.
const SMALLEST_PAGE: u64 = 2 * MIB;
/// What a page has beyond the allocation that it is made for, and the unit that it is rounded up to.
const SLACK: u64 = MIB;

/// Bytes that the allocator holds at the end of a step whose tensors live as `timeline` says.
///
/// Pages are taken to have their final size from the beginning: those that a first step outgrows are given back as they
/// empty.
pub(super) fn reserved(timeline: &Timeline, alignment: u64) -> u64 {
    let sizes = timeline.blocks.iter().map(|block| block.bytes.get());
    let sizes = sizes.chain(timeline.events.iter().map(|event| event.workspace.get()));
    let largest = sizes.max().unwrap_or(0);
    let page = match largest.next_multiple_of(alignment) <= SMALLEST_PAGE {
        true => SMALLEST_PAGE,
        false => (largest + SLACK).next_multiple_of(MIB).next_multiple_of(alignment),
    };
    let mut pools = [Pool::new(SMALL_PAGE), Pool::new(page)];
    let pool_of = |bytes: u64| usize::from(bytes > SMALL);

    let mut born: Vec<Vec<usize>> = vec![Vec::new(); timeline.events.len()];
    let mut gone = born.clone();
    for (index, block) in timeline.blocks.iter().enumerate().filter(|(_, block)| block.bytes.get() > 0) {
        if block.born < born.len() {
            born[block.born].push(index);
            gone[block.last].push(index);
        }
    }
    let mut places = vec![None; timeline.blocks.len()];
    for (event, (born, gone)) in timeline.events.iter().zip(born.into_iter().zip(gone)) {
        for index in born {
            let bytes = timeline.blocks[index].bytes.get().next_multiple_of(alignment);
            places[index] = Some((pool_of(bytes), pools[pool_of(bytes)].take(bytes)));
        }
        let workspace = event.workspace.get();
        if workspace > 0 {
            let pool = &mut pools[pool_of(workspace)];
            let place = pool.take(workspace.next_multiple_of(alignment));
            pool.give_back(place);
        }
        for (pool, place) in gone.into_iter().filter_map(|index| places[index].take()) {
            pools[pool].give_back(place);
        }
    }
    pools.iter().map(|pool| pool.pages.len() as u64 * pool.page).sum()
}

/// Pages of one size.
struct Pool {
    page: u64,
    /// Of each page what is taken, as `(start, end)` in order.
    pages: Vec<Vec<(u64, u64)>>,
}

/// A page and where in it an allocation starts.
#[derive(Clone, Copy, Debug)]
struct Place {
    page: usize,
    start: u64,
}

impl Pool {
    fn new(page: u64) -> Self {
        Self { page, pages: Vec::new() }
    }

    fn take(&mut self, bytes: u64) -> Place {
        for (page, taken) in self.pages.iter_mut().enumerate() {
            let mut start = 0;
            let ends = taken.iter().copied().chain([(self.page, self.page)]).enumerate();
            for (index, (next, end)) in ends {
                if start + bytes <= next {
                    taken.insert(index, (start, start + bytes));
                    return Place { page, start };
                }
                start = end;
            }
        }
        self.pages.push(vec![(0, bytes)]);
        Place { page: self.pages.len() - 1, start: 0 }
    }

    fn give_back(&mut self, place: Place) {
        self.pages[place.page].retain(|(start, _)| *start != place.start);
    }
}

#[cfg(test)]
mod tests {
    use leanburn_common::Bytes;

    use super::*;
    use crate::{Block, Cause, OperationEvent, Phase};

    fn timeline(events: usize, blocks: &[(u64, usize, usize)]) -> Timeline {
        let event = OperationEvent {
            operation: "add".into(),
            phase: Phase::Forward,
            segment: None,
            flops: 0,
            is_half: false,
            bytes_moved: Bytes(0),
            during: Bytes(0),
            after: Bytes(0),
            workspace: Bytes(0),
            graph_metadata: Bytes(0),
            repeats: 1.0,
        };
        let block =
            |&(bytes, born, last)| Block { bytes: Bytes(bytes), cause: Cause::Temporaries, segment: None, born, last };
        Timeline { events: vec![event; events], blocks: blocks.iter().map(block).collect(), ..Timeline::default() }
    }

    #[test]
    fn a_page_is_as_large_as_the_largest_allocation_and_a_megabyte() {
        assert_eq!(reserved(&timeline(1, &[(10 * MIB, 0, 0)]), 256), 11 * MIB);
        assert_eq!(reserved(&timeline(1, &[(10 * MIB + 1, 0, 0)]), 256), 12 * MIB);
        assert_eq!(reserved(&timeline(1, &[(100 << 10, 0, 0)]), 256), 2 * MIB);
        assert_eq!(reserved(&timeline(1, &[(1 << 10, 0, 0)]), 256), 8 * MIB);
    }

    #[test]
    fn what_is_given_back_is_used_again() {
        let one_after_the_other = timeline(3, &[(10 * MIB, 0, 0), (10 * MIB, 1, 1), (10 * MIB, 2, 2)]);
        assert_eq!(reserved(&one_after_the_other, 256), 11 * MIB);
        let together = timeline(3, &[(10 * MIB, 0, 2), (10 * MIB, 1, 2), (10 * MIB, 2, 2)]);
        assert_eq!(reserved(&together, 256), 33 * MIB);
    }

    #[test]
    fn a_gap_is_filled_by_what_fits() {
        // Two of five share the page of ten; the first goes, and one of six does not fit where it was.
        let blocks = [(10 * MIB, 0, 0), (5 * MIB, 1, 1), (5 * MIB, 1, 3), (6 * MIB, 2, 3), (5 * MIB, 3, 3)];
        assert_eq!(reserved(&timeline(4, &blocks), 256), 22 * MIB);
        let blocks = [(10 * MIB, 0, 0), (5 * MIB, 1, 1), (5 * MIB, 1, 3), (5 * MIB, 2, 3)];
        assert_eq!(reserved(&timeline(4, &blocks), 256), 11 * MIB);
    }
}

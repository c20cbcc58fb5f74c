//! The tasks of a run over an output, numbered so that who runs one after the other marches along the depth of a tile.

use crate::conv::gather::problem::Gather;
use crate::size::product;

/// How many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    /// Items of the batch times groups.
    pieces: usize,
    /// Steps along the depth, and tiles along rows and columns.
    counts: [usize; 3],
    /// Parts of the depth, each of which is done in all tiles before the next.
    parts: usize,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Item of the batch and group.
    pub piece: usize,
    /// Number of the tile along rows and along columns.
    pub tile: [usize; 2],
    /// Number of the step along the depth.
    pub step: usize,
}

impl Tasks {
    /// Steps along the depth and tiles of each item and group, for the threads of the pool; `plane` is cut into tiles of `tile` rows and columns.
    ///
    /// Each thread begins with a share of the numbers. Where there are few tiles and some are smaller, a share of one tile would be
    /// less work than that of another; then each takes a part of the depth, of all of them.
    pub(crate) fn of(gather: &Gather, counts: [usize; 3], plane: [usize; 2], tile: [usize; 2]) -> Self {
        let is_even = plane.iter().zip(tile).all(|(len, tile)| len.is_multiple_of(tile));
        Self::new(gather.batch_size * gather.groups, counts, is_even, rayon::current_num_threads())
    }

    fn new(pieces: usize, counts: [usize; 3], is_even: bool, threads: usize) -> Self {
        let [steps, high, wide] = counts;
        let tiles = product(&[pieces, high, wide]).max(1);
        let parts = if is_even { 1 } else { (2 * threads / tiles).clamp(1, steps.max(1)) };
        Self { pieces, counts, parts }
    }

    pub(crate) fn len(&self) -> usize {
        product(&[self.pieces, self.counts.iter().product()])
    }

    pub(crate) fn place(&self, task: usize) -> Place {
        let [steps, high, wide] = self.counts;
        let tiles = self.pieces * high * wide;
        let start = |part: usize| steps * part / self.parts;
        let part = (0..self.parts).rev().find(|part| start(*part) * tiles <= task).unwrap_or(0);
        let (within, len) = (task - start(part) * tiles, start(part + 1) - start(part));
        let (tile, step) = (within / len, start(part) + within % len);
        Place { piece: tile / wide / high, tile: [tile / wide % high, tile % wide], step }
    }
}

/// Where a thread has been last.
#[derive(Debug, Default)]
pub(crate) struct March(Option<Place>);

impl March {
    /// Whether a task at this place goes on where the one before ended, so that what that one packed can be used again.
    pub(crate) fn goes_on(&mut self, place: Place) -> bool {
        let next = |before: Place| Place { step: before.step + 1, ..before };
        self.0.replace(place).map(next) == Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places in the order of their numbers, as `[piece, row, column, step]`.
    fn places(tasks: Tasks) -> Vec<[usize; 4]> {
        let all = (0..tasks.len()).map(|task| tasks.place(task));
        all.map(|Place { piece, tile: [row, column], step }| [piece, row, column, step]).collect()
    }

    #[test]
    fn each_place_has_a_task() {
        for is_even in [true, false] {
            for (pieces, counts) in [(2, [3, 2, 2]), (1, [5, 2, 1]), (1, [7, 1, 1]), (3, [1, 1, 1]), (0, [4, 4, 4])] {
                for threads in [1, 2, 5] {
                    let mut found = places(Tasks::new(pieces, counts, is_even, threads));
                    found.sort_unstable();
                    let [steps, high, wide] = counts;
                    let at = |index: usize| {
                        let tile = index / steps;
                        [tile / wide / high, tile / wide % high, tile % wide, index % steps]
                    };
                    assert_eq!(found, (0..pieces * steps * high * wide).map(at).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn shares_of_uneven_tiles_are_parts_of_the_depth() {
        let of = |is_even: bool| {
            places(Tasks::new(1, [5, 2, 1], is_even, 2)).into_iter().map(|[_, tile, _, step]| [tile, step])
        };
        let even = [0, 1].into_iter().flat_map(|tile| (0..5).map(move |step| [tile, step]));
        assert!(of(true).eq(even));
        assert!(of(false).eq([[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]]));
    }

    #[test]
    fn a_march_goes_on_in_its_tile() {
        let mut march = March::default();
        let at = |piece, tile, step| Place { piece, tile: [0, tile], step };
        let places =
            [at(0, 0, 0), at(0, 0, 1), at(0, 0, 2), at(0, 1, 3), at(0, 1, 4), at(1, 1, 5), at(1, 1, 5), at(1, 1, 7)];
        assert_eq!(places.map(|place| march.goes_on(place)), [false, true, true, false, true, false, false, false]);
    }
}

//! Shape of a norm: its rows and groups.

use std::ops::Range;

/// Shape of a norm over `[batch_size, channels, positions]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    /// Items in the batch.
    pub batch_size: usize,
    /// Channels, a multiple of the groups.
    pub channels: usize,
    /// Depth times height times width.
    pub positions: usize,
    /// Groups of neighbouring channels that share their mean and variance: 1 is layer norm, `channels` instance norm.
    pub groups: usize,
}

impl NormShape {
    /// Number of elements of the volume.
    pub fn elements(&self) -> usize {
        self.rows() * self.positions
    }

    /// Number of rows: the positions of one channel of one item.
    pub(super) fn rows(&self) -> usize {
        self.batch_size * self.channels
    }

    /// Number of elements that share their mean and variance.
    pub(super) fn group_len(&self) -> usize {
        self.channels / self.groups * self.positions
    }

    /// The group, among those of the batch, of a row.
    pub(super) fn group_of(&self, row: usize) -> usize {
        row / (self.channels / self.groups)
    }

    /// Cuts `length` elements from `start` on at the ends of rows: each row, and its range counted from `start`.
    #[inline(always)]
    pub(super) fn segments(&self, start: usize, length: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let positions = self.positions;
        let mut row = start.checked_div(positions).unwrap_or_default();
        let mut begin = 0;
        std::iter::from_fn(move || {
            let end = ((row + 1) * positions).saturating_sub(start).min(length);
            let segment = (begin < end).then_some((row, begin..end));
            (row, begin) = (row + 1, end);
            segment
        })
    }

    /// Checks the shape against the length of a volume.
    pub(super) fn check(&self, length: usize) {
        assert!(
            self.groups > 0 && self.channels.is_multiple_of(self.groups),
            "{} channels do not fall into {} groups of equal size",
            self.channels,
            self.groups
        );
        assert_eq!(length, self.elements(), "a volume of {self:?} has as many elements as the shape says");
    }
}

#[cfg(test)]
mod tests {
    use super::super::group_statistics;
    use super::*;

    #[test]
    fn segments_cover_every_element_once_and_stay_within_their_row() {
        for positions in [1, 2, 3, 7, 16, 100] {
            let shape = NormShape { batch_size: 2, channels: 3, positions, groups: 1 };
            for length in [1, 5, 16, 1000] {
                let mut next = 0;
                for start in (0..shape.elements()).step_by(length) {
                    let length = length.min(shape.elements() - start);
                    for (row, range) in shape.segments(start, length) {
                        assert_eq!(start + range.start, next);
                        assert!(!range.is_empty());
                        assert_eq!(
                            (row, row),
                            ((start + range.start) / positions, (start + range.end - 1) / positions)
                        );
                        next = start + range.end;
                    }
                }
                assert_eq!(next, shape.elements());
            }
        }
    }

    #[test]
    #[should_panic(expected = "7 channels do not fall into 2 groups")]
    fn groups_divide_the_channels() {
        group_statistics(&NormShape { batch_size: 1, channels: 7, positions: 2, groups: 2 }, &[0f32; 14], 1e-5);
    }
}

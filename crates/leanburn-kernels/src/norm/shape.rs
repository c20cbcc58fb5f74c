//! Shape of a norm: its rows and groups.

use std::ops::Range;

use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::check_volume;

/// Shape of a norm over `[batch_size, channels, positions]`.
///
/// Every value of this type was validated: the groups divide the channels, and the volume can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    pub(super) batch_size: usize,
    /// A multiple of the groups.
    pub(super) channels: usize,
    /// Depth times height times width.
    pub(super) positions: usize,
    pub(super) groups: usize,
}

impl NormShape {
    /// A norm over `[batch_size, channels, depth, height, width]`, with so many groups of neighbouring channels that share their
    /// mean and variance: 1 is layer norm, as many as channels instance norm.
    ///
    /// # Errors
    ///
    /// Where there are no groups or no channels, the groups do not divide the channels, or the volume takes more than 128 TiB.
    pub fn new(dims: [usize; 5], groups: usize) -> Result<Self, ShapeError> {
        let [batch_size, channels, depth, height, width] = dims;
        if let Some((name, _)) = [("groups", groups), ("channels", channels)].into_iter().find(|(_, count)| *count == 0)
        {
            return Err(ShapeProblem::Zero { name }.into());
        }
        if !channels.is_multiple_of(groups) {
            return Err(ShapeProblem::Groups { of: "input", channels, groups }.into());
        }
        check_volume("the input", &dims)?;
        Ok(Self { batch_size, channels, positions: depth * height * width, groups })
    }

    /// Number of elements of the volume.
    pub fn elements(&self) -> usize {
        self.rows() * self.positions
    }

    /// Number of rows: the positions of one channel of one item.
    pub(super) fn rows(&self) -> usize {
        self.batch_size * self.channels
    }

    /// Number of channels that share their mean and variance.
    pub(super) fn group_channels(&self) -> usize {
        self.channels / self.groups
    }

    /// The group, among those of the batch, of a row.
    pub(super) fn group_of(&self, row: usize) -> usize {
        row / self.group_channels()
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
        assert_eq!(length, self.elements(), "a volume of {self:?} has as many elements as the shape says");
    }
}

#[cfg(test)]
mod tests {
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
    fn groups_divide_the_channels() {
        let message = |groups| NormShape::new([1, 7, 1, 1, 2], groups).unwrap_err().to_string();
        assert_eq!(message(2), "expected groups that divide the 7 channels of the input, found 2");
        assert_eq!(message(0), "expected a length of at least 1 for the groups, found 0");
    }
}

//! Group norm (instance norm and layer norm are its ends) with the activation that follows it.
//!
//! Paper: [Group Normalization](https://arxiv.org/abs/1803.08494).
//!
//! `y = activation(weight * (x - mean) / sqrt(variance + epsilon) + bias)`, with mean and variance over the channels and
//! positions of one group of one item. The norm is never stored: [`group_statistics`] reads the volume once,
//! [`GroupStatistics::scale_and_shift`] turns the norm into one multiplication and addition per value, which the next
//! convolution applies while it reads ([`Prologue`](crate::conv::Prologue)) or [`apply`] writes out;
//! [`group_norm_act_backward`] needs the input and the statistics alone.
//!
//! Volumes are cut into chunks of a fixed number of elements, whatever the rows; a chunk is a task. Sums are float32
//! within a block that fits the first cache, float64 beyond it, and added in the order of the volume.

mod backward;
mod derivative;
mod forward;
mod statistics;

use std::ops::Range;

pub use backward::group_norm_act_backward;
pub use derivative::act_backward;
pub use forward::{apply, apply_in_place};
pub use statistics::{GroupStatistics, group_statistics};

use crate::Element;

/// Elements of a task.
const CHUNK: usize = 16_384;

/// Elements that are worked on at a time: of several volumes, they fit the first cache.
const BLOCK: usize = 1024;

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
    fn rows(&self) -> usize {
        self.batch_size * self.channels
    }

    /// Number of elements that share their mean and variance.
    fn group_len(&self) -> usize {
        self.channels / self.groups * self.positions
    }

    /// The group, among those of the batch, of a row.
    fn group_of(&self, row: usize) -> usize {
        row / (self.channels / self.groups)
    }

    /// Cuts `length` elements from `start` on at the ends of rows: each row, and its range counted from `start`.
    #[inline(always)]
    fn segments(&self, start: usize, length: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
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
    fn check(&self, length: usize) {
        assert!(
            self.groups > 0 && self.channels.is_multiple_of(self.groups),
            "{} channels do not fall into {} groups of equal size",
            self.channels,
            self.groups
        );
        assert_eq!(length, self.elements(), "a volume of {self:?} has as many elements as the shape says");
    }
}

/// Cuts a range into blocks.
#[inline(always)]
fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK).map(move |begin| begin..(begin + BLOCK).min(end))
}

/// A block in float32: itself, or widened into `buffer`.
#[inline(always)]
fn read<'a, E: Element>(values: &'a [E], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
    match E::as_f32(values) {
        Some(values) => values,
        None => {
            let buffer = &mut buffer[..values.len()];
            E::widen(values, buffer);
            buffer
        }
    }
}

/// A block in float32 to change: itself, or widened into `buffer`, which [`write_back`] rounds into it.
#[inline(always)]
fn edit<'a, E: Element>(values: &'a mut [E], buffer: &'a mut [f32; BLOCK]) -> &'a mut [f32] {
    match E::as_f32_mut(values) {
        Ok(values) => values,
        Err(values) => {
            let buffer = &mut buffer[..values.len()];
            E::widen(values, buffer);
            buffer
        }
    }
}

/// Rounds into `values` what was changed in `buffer`; nothing where [`edit`] gave the block itself.
#[inline(always)]
fn write_back<E: Element>(buffer: &[f32; BLOCK], values: &mut [E]) {
    if let Err(values) = E::as_f32_mut(values) {
        E::narrow(&buffer[..values.len()], values);
    }
}

#[cfg(test)]
mod twin;

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
    fn blocks_cover_a_range() {
        assert_eq!(blocks(5..5).count(), 0);
        assert!(blocks(5..6).eq(std::iter::once(5..6)));
        assert!(blocks(3..2053).eq([3..1027, 1027..2051, 2051..2053]));
    }

    #[test]
    #[should_panic(expected = "7 channels do not fall into 2 groups")]
    fn groups_divide_the_channels() {
        group_statistics(&NormShape { batch_size: 1, channels: 7, positions: 2, groups: 2 }, &[0f32; 14], 1e-5);
    }
}

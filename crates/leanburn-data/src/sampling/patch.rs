//! Boxes of voxels, and cutting patches out of a volume or its labels.

use rand::{Rng, RngExt};

/// A box of voxels: `start` included, `end` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: [usize; 3],
    pub(crate) end: [usize; 3],
}

impl Region {
    pub(crate) fn whole(extent: [usize; 3]) -> Self {
        Self { start: [0; 3], end: extent }
    }

    pub(crate) fn extent(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.end[axis] - self.start[axis])
    }

    /// Where a patch of `size` starts so that `centre` is in its middle, moved as little as needed
    /// to lie inside; along an axis that is too short the patch stands out equally on both sides.
    pub(crate) fn start_around(&self, centre: [usize; 3], size: [usize; 3]) -> [i64; 3] {
        let extent = self.extent();
        [0, 1, 2].map(|axis| {
            let (start, size) = (self.start[axis] as i64, size[axis] as i64);
            match extent[axis] as i64 - size {
                room if room < 0 => start - (-room) / 2,
                room => (centre[axis] as i64 - size / 2).clamp(start, start + room),
            }
        })
    }

    /// Where a patch of `size` starts that is drawn uniformly.
    pub(crate) fn random_start(&self, size: [usize; 3], random: &mut impl Rng) -> [i64; 3] {
        let extent = self.extent();
        [0, 1, 2].map(|axis| {
            let start = self.start[axis] as i64;
            match extent[axis] as i64 - size[axis] as i64 {
                room if room < 0 => start - (-room) / 2,
                room => start + random.random_range(0..=room),
            }
        })
    }
}

/// A patch of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cut {
    /// What may be read: beyond it, its outermost voxels repeat.
    pub(crate) region: Region,
    /// The first voxel.
    pub(crate) start: [i64; 3],
    /// Voxels along x, y and z.
    pub(crate) size: [usize; 3],
    /// Axes that run backwards.
    pub(crate) flips: [bool; 3],
}

/// Cuts `[channels, size]` out of values of shape `[channels, x, y, z]`, into a place of as many values.
pub(crate) fn cut_into<T: Copy>(values: &mut [T], source: &[T], shape: [usize; 4], patch: &Cut) {
    let Cut { region, start, size, flips } = *patch;
    let [_, width, height, depth] = shape;
    let [x, y, z] = size;
    let indices = [0, 1, 2].map(|axis| -> Vec<usize> {
        let (low, high) = (region.start[axis] as i64, region.end[axis] as i64 - 1);
        let place = |index: usize| (start[axis] + index as i64).clamp(low, high) as usize;
        match flips[axis] {
            true => (0..size[axis]).rev().map(place).collect(),
            false => (0..size[axis]).map(place).collect(),
        }
    });
    for (row, values) in values.chunks_exact_mut(z).enumerate() {
        let (channel, i, j) = (row / (x * y), indices[0][row / y % x], indices[1][row % y]);
        let line = ((channel * width + i) * height + j) * depth;
        let source = &source[line..line + depth];
        values.iter_mut().zip(&indices[2]).for_each(|(value, k)| *value = source[*k]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DataError;
    use crate::random::{Stream, generator};
    use crate::volumes::zeros;

    const SHAPE: [usize; 4] = [2, 3, 4, 5];

    fn numbered(region: Region, start: [i64; 3], size: [usize; 3], flips: [bool; 3]) -> Result<Vec<u8>, DataError> {
        let values: Vec<u8> = (0..2 * 60).collect();
        let mut patch = zeros(&[SHAPE[0], size[0], size[1], size[2]])?;
        cut_into(&mut patch, &values, SHAPE, &Cut { region, start, size, flips });
        Ok(patch)
    }

    #[test]
    fn cuts_flips_and_pads() {
        let whole = Region::whole([3, 4, 5]);
        let patch = numbered(whole, [1, 2, 3], [2, 1, 2], [false; 3]).unwrap();
        assert_eq!(patch, [33, 34, 53, 54, 93, 94, 113, 114]);
        let flipped = numbered(whole, [1, 2, 3], [2, 1, 2], [true, false, true]).unwrap();
        assert_eq!(flipped, [54, 53, 34, 33, 114, 113, 94, 93]);
        let padded = numbered(whole, [0, 0, -1], [1, 1, 7], [false; 3]).unwrap();
        assert_eq!(padded[..7], [0, 0, 1, 2, 3, 4, 4]);
        let region = Region { start: [0, 0, 1], end: [3, 4, 3] };
        let inside = numbered(region, [0, 0, 0], [1, 1, 5], [false; 3]).unwrap();
        assert_eq!(inside[..5], [1, 1, 2, 2, 2]);
        assert!(numbered(whole, [0; 3], [usize::MAX; 3], [false; 3]).unwrap_err().is_too_large());
    }

    #[test]
    fn starts_lie_inside() {
        let region = Region { start: [10, 0, 0], end: [20, 4, 6] };
        assert_eq!(region.start_around([19, 0, 3], [4, 4, 2]), [16, 0, 2]);
        assert_eq!(region.start_around([15, 2, 5], [4, 7, 2]), [13, -1, 4]);
        let mut seen = [false; 7];
        for index in 0..200 {
            let mut random = generator(1, Stream::TrainSample, index);
            let start = region.random_start([4, 9, 6], &mut random);
            assert_eq!(start[1..], [-2, 0]);
            seen[start[0] as usize - 10] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}

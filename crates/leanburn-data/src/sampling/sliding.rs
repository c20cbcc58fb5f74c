//! Sliding-window inference: a volume through a model in overlapping patches.
//!
//! Where patches overlap their outputs are averaged, weighted by the distance from the patch's edge, as in
//! [nnU-Net](https://doi.org/10.1038/s41592-020-01008-z) (there with a Gaussian). Known weakness: a model that sees the whole
//! volume at once may answer differently near a patch's edge.

use crate::error::DataError;
use crate::volumes::{Volume, zeros};

/// Patches of one size that cover a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct SlidingWindow {
    patch: [usize; 3],
    overlap: f64,
}

impl SlidingWindow {
    /// Patches of `patch` voxels that overlap by the share `overlap`, at least 0 and below 1; `None` for other values.
    pub fn new(patch: [usize; 3], overlap: f64) -> Option<Self> {
        let is_valid = patch.iter().all(|&size| size > 0) && (0.0..1.0).contains(&overlap);
        is_valid.then_some(Self { patch, overlap })
    }

    /// The same patches on a grid whose voxels are `factors` as large along each axis; at least one voxel.
    #[must_use]
    pub fn coarser(&self, factors: [usize; 3]) -> Self {
        Self { patch: [0, 1, 2].map(|axis| self.patch[axis].div_ceil(factors[axis])), overlap: self.overlap }
    }

    /// How many patches cover a volume of this extent.
    pub fn count(&self, extent: [usize; 3]) -> usize {
        (0..3).map(|axis| self.starts(axis, extent[axis]).len()).product()
    }

    /// Runs `model` on every patch and blends what it gives.
    ///
    /// `model` gets a patch's values and its shape `[channels, x, y, z]`, and gives `channels` values for each of
    /// its voxels. A patch is cut down where the volume is smaller.
    ///
    /// # Memory
    /// Output and weights: `channels + 1` values a voxel.
    ///
    /// # Errors
    /// If there is no memory for the output.
    ///
    /// # Panics
    /// If `model` gives another number of values.
    pub fn run(
        &self,
        volume: &Volume,
        channels: usize,
        model: impl FnMut(&[f32], [usize; 4]) -> Vec<f32>,
    ) -> Result<Vec<f32>, DataError> {
        self.run_scaled(volume, channels, [1; 3], [1; 3], model)
    }

    /// The same for a model that changes the resolution, such as an encoder: patches are sizes on a coarse grid, whose voxels are
    /// `input` voxels of the volume along each axis and become `output` of what `model` gives.
    ///
    /// # Memory, Errors
    /// As [`run`](Self::run), of the output.
    ///
    /// # Panics
    /// If `model` gives another number of values, or the volume's axes are no multiples of `input`.
    pub fn run_scaled(
        &self,
        volume: &Volume,
        channels: usize,
        input: [usize; 3],
        output: [usize; 3],
        mut model: impl FnMut(&[f32], [usize; 4]) -> Vec<f32>,
    ) -> Result<Vec<f32>, DataError> {
        let times = |sizes: [usize; 3], factors: [usize; 3]| [0, 1, 2].map(|axis| sizes[axis] * factors[axis]);
        let coarse = [0, 1, 2].map(|axis| volume.extent()[axis] / input[axis]);
        assert_eq!(times(coarse, input), volume.extent(), "axes that are multiples of {input:?}");
        let patch: [usize; 3] = std::array::from_fn(|axis| self.patch[axis].min(coarse[axis]));
        let (taken, size, extent) = (times(patch, input), times(patch, output), times(coarse, output));
        let voxels: usize = extent.iter().product();
        let mut sums = zeros(&[channels, voxels])?;
        let mut weights = zeros(&[voxels])?;
        let ramp = size.map(ramp);
        for corner in self.corners(coarse) {
            let values = cut(volume, times(corner, input), taken);
            let output_values = model(&values, [volume.channels(), taken[0], taken[1], taken[2]]);
            let expected = channels * size.iter().product::<usize>();
            assert_eq!(output_values.len(), expected, "as many voxels as the patch has");
            for (row, (at, from)) in rows(extent, times(corner, output), size).enumerate() {
                let (x, y) = (row / size[1], row % size[1]);
                let edge = ramp[0][x] * ramp[1][y];
                for (z, ramp) in ramp[2].iter().enumerate() {
                    weights[at + z] += edge * ramp;
                    for channel in 0..channels {
                        let value = output_values[channel * size.iter().product::<usize>() + from + z];
                        sums[channel * voxels + at + z] += edge * ramp * value;
                    }
                }
            }
        }
        for channel in sums.chunks_exact_mut(voxels) {
            channel.iter_mut().zip(&weights).for_each(|(sum, weight)| *sum /= weight);
        }
        Ok(sums)
    }

    fn corners(&self, extent: [usize; 3]) -> Vec<[usize; 3]> {
        let [xs, ys, zs] = std::array::from_fn(|axis| self.starts(axis, extent[axis]));
        let planes = xs.iter().flat_map(|&x| ys.iter().map(move |&y| (x, y)));
        planes.flat_map(|(x, y)| zs.iter().map(move |&z| [x, y, z])).collect()
    }

    /// Where patches start on an axis: evenly spaced, the last flush with the end.
    fn starts(&self, axis: usize, extent: usize) -> Vec<usize> {
        let patch = self.patch[axis].min(extent);
        let step = ((self.patch[axis] as f64 * (1.0 - self.overlap)).round() as usize).max(1);
        let last = extent - patch;
        let count = last.div_ceil(step) + 1;
        (0..count).map(|index| if count == 1 { 0 } else { index * last / (count - 1) }).collect()
    }
}

/// Weights along an axis: they rise from the edge to the middle and are never zero.
fn ramp(size: usize) -> Vec<f32> {
    (0..size).map(|at| (at + 1).min(size - at) as f32).collect()
}

/// Offsets of the rows of a patch: in the volume's channel, and in the patch's.
fn rows(extent: [usize; 3], start: [usize; 3], size: [usize; 3]) -> impl Iterator<Item = (usize, usize)> {
    let planes = (0..size[0]).flat_map(move |x| (0..size[1]).map(move |y| (x, y)));
    planes.map(move |(x, y)| {
        let at = ((start[0] + x) * extent[1] + start[1] + y) * extent[2] + start[2];
        (at, (x * size[1] + y) * size[2])
    })
}

fn cut(volume: &Volume, start: [usize; 3], size: [usize; 3]) -> Vec<f32> {
    let extent = volume.extent();
    let voxels: usize = extent.iter().product();
    let mut patch = Vec::with_capacity(volume.channels() * size.iter().product::<usize>());
    for channel in volume.data().chunks_exact(voxels) {
        rows(extent, start, size).for_each(|(at, _)| patch.extend_from_slice(&channel[at..at + size[2]]));
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    fn volume(extent: [usize; 3]) -> Volume {
        let [x, y, z] = extent;
        let data = (0..2 * x * y * z).map(|value| (value % 97) as f32).collect();
        Volume::new(data, [2, x, y, z], IDENTITY).unwrap()
    }

    #[test]
    fn a_model_that_changes_nothing_gives_the_volume_back() {
        for (extent, patch, overlap) in
            [([9, 7, 5], [4, 4, 4], 0.5), ([9, 7, 5], [3, 7, 20], 0.0), ([1, 2, 30], [8, 8, 8], 0.25)]
        {
            let volume = volume(extent);
            let window = SlidingWindow::new(patch, overlap).unwrap();
            let mut patches = 0;
            let output = window.run(&volume, 2, |patch, shape| {
                assert_eq!(patch.len(), shape.iter().product::<usize>());
                patches += 1;
                patch.to_vec()
            });
            let largest = output.unwrap().iter().zip(volume.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest < 1e-4, "{largest} off for {extent:?} in {patch:?}");
            assert_eq!(patches, window.count(extent));
        }
    }

    #[test]
    fn models_change_the_resolution() {
        let volume = volume([4, 6, 8]);
        let window = SlidingWindow::new([4, 4, 4], 0.5).unwrap().coarser([2, 1, 4]);
        // every other voxel along the first axis, every fourth along the last, and back by repetition
        let pick = |patch: &[f32], [channels, x, y, z]: [usize; 4]| -> Vec<f32> {
            let rows =
                (0..channels * x).filter(|row| row % x % 2 == 0).flat_map(|row| (0..y).map(move |at| row * y + at));
            rows.flat_map(|row| patch[row * z..(row + 1) * z].iter().step_by(4).copied()).collect()
        };
        let coarse = window.run_scaled(&volume, 2, [2, 1, 4], [1; 3], pick).unwrap();
        assert_eq!(coarse, pick(volume.data(), volume.shape()));
        let coarse = Volume::new(coarse, [2, 2, 6, 2], IDENTITY).unwrap();
        let repeat = |patch: &[f32], [channels, x, y, z]: [usize; 4]| -> Vec<f32> {
            let rows = (0..channels * x * 2).flat_map(|row| (0..y).map(move |at| row / 2 * y + at));
            rows.flat_map(|row| patch[row * z..(row + 1) * z].iter().flat_map(|value| [*value; 4])).collect()
        };
        let fine = window.run_scaled(&coarse, 2, [1; 3], [2, 1, 4], repeat).unwrap();
        let expected = repeat(coarse.data(), coarse.shape());
        assert!(fine.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4));
    }

    #[test]
    fn patches_cover_the_axis_and_overlap_as_asked() {
        let window = SlidingWindow::new([4, 4, 4], 0.5).unwrap();
        assert_eq!(window.starts(0, 10), [0, 2, 4, 6]);
        assert_eq!(window.starts(0, 4), [0]);
        assert_eq!(window.starts(0, 3), [0]);
        assert_eq!(SlidingWindow::new([4; 3], 0.0).unwrap().starts(0, 9), [0, 2, 5]);
    }

    #[test]
    fn overlapping_outputs_are_averaged_with_more_weight_in_the_middle() {
        let volume = volume([6, 1, 1]);
        let window = SlidingWindow::new([4, 1, 1], 0.5).unwrap();
        let mut patch = 0.0;
        let output = window.run(&volume, 1, |_, _| {
            patch += 1.0;
            vec![patch; 4]
        });
        // patches start at 0 and 2; at voxel 2 the first weighs 2 of 3, at voxel 3 the second does
        let expected = [1.0, 1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0, 2.0];
        assert!(output.unwrap().iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn senseless_windows_are_rejected() {
        assert!(SlidingWindow::new([0, 1, 1], 0.0).is_none());
        assert!(SlidingWindow::new([1; 3], 1.0).is_none());
        assert!(SlidingWindow::new([1; 3], f64::NAN).is_none());
    }
}

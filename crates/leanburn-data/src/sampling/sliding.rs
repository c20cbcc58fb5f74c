//! Sliding-window inference: a volume through a model in overlapping patches.
//!
//! Where patches overlap their outputs are averaged, with more weight on the middle of a patch than on its edge. Patches lie evenly, as in
//! [nnU-Net](https://doi.org/10.1038/s41592-020-01008-z): MONAI's are a fixed step apart, the last one flush with the end. Known
//! weakness: a model that sees the whole volume at once may answer differently near a patch's edge.

use crate::error::DataError;
use crate::volumes::{Volume, zeros};

/// What the voxels of a patch weigh where patches overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Blending {
    /// A weight that rises evenly from the edge to the middle along each axis: no seams.
    #[default]
    Linear,
    /// A Gaussian around the middle whose deviation is an eighth of the patch, and at least 1e-3: nnU-Net's, and MONAI's
    /// `mode="gaussian"` with `sigma_scale=0.125`. The edge, where a model sees least, counts next to nothing.
    Gaussian,
}

impl Blending {
    /// Weights along an axis; that of a voxel is the product of its three.
    fn along(self, size: usize) -> Vec<f32> {
        let (middle, deviation) = ((size as f32 - 1.0) / 2.0, size as f32 / 8.0);
        let weight = |at: usize| match self {
            Self::Linear => (at + 1).min(size - at) as f32,
            Self::Gaussian => (-(at as f32 - middle).powi(2) / (2.0 * deviation.powi(2))).exp(),
        };
        (0..size).map(weight).collect()
    }

    /// The least that a voxel weighs.
    fn least(self) -> f32 {
        match self {
            Self::Linear => 0.0,
            Self::Gaussian => 1e-3,
        }
    }
}

/// Patches of one size that cover a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct SlidingWindow {
    patch: [usize; 3],
    overlap: f64,
    blending: Blending,
}

impl SlidingWindow {
    /// Patches of `patch` voxels that overlap by the share `overlap`, at least 0 and below 1; `None` for other values.
    pub fn new(patch: [usize; 3], overlap: f64) -> Option<Self> {
        let is_valid = patch.iter().all(|&size| size > 0) && (0.0..1.0).contains(&overlap);
        is_valid.then_some(Self { patch, overlap, blending: Blending::default() })
    }

    /// The same patches with other weights where they overlap. Default: linear.
    #[must_use]
    pub fn with_blending(self, blending: Blending) -> Self {
        Self { blending, ..self }
    }

    /// The same patches on a grid whose voxels are `factors` as large along each axis; at least one voxel.
    #[must_use]
    pub fn coarser(&self, factors: [usize; 3]) -> Self {
        Self { patch: [0, 1, 2].map(|axis| self.patch[axis].div_ceil(factors[axis])), ..self.clone() }
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
        let (along, least) = (size.map(|size| self.blending.along(size)), self.blending.least());
        for corner in self.corners(coarse) {
            let values = cut(volume, times(corner, input), taken);
            let output_values = model(&values, [volume.channels(), taken[0], taken[1], taken[2]]);
            let expected = channels * size.iter().product::<usize>();
            assert_eq!(output_values.len(), expected, "as many voxels as the patch has");
            for (row, (at, from)) in rows(extent, times(corner, output), size).enumerate() {
                let (x, y) = (row / size[1], row % size[1]);
                let of_row = along[0][x] * along[1][y];
                for (z, along) in along[2].iter().enumerate() {
                    let weight = (of_row * along).max(least);
                    weights[at + z] += weight;
                    for channel in 0..channels {
                        let value = output_values[channel * size.iter().product::<usize>() + from + z];
                        sums[channel * voxels + at + z] += weight * value;
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

    /// Values of MONAI's `sliding_window_inference(mode="gaussian")` (`tests/fixtures/make_sliding_window.py`).
    #[test]
    fn gaussian_weights_are_those_of_monai() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sliding_window.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let fixture = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        for (name, extent, patch, overlap) in [
            ("many", [9, 8, 12], [6, 4, 6], 0.5),
            ("few", [7, 8, 5], [7, 6, 5], 0.25),
            ("one", [5, 6, 7], [5, 6, 7], 0.25),
        ] {
            let [x, y, z] = extent;
            let values = (0..x * y * z).map(|at| (at * 37 % 101) as f32 / 101.0).collect();
            let volume = Volume::new(values, [1, x, y, z], IDENTITY).unwrap();
            let window = SlidingWindow::new(patch, overlap).unwrap().with_blending(Blending::Gaussian);
            // The place in the patch is in the values, so that every weight is seen.
            let found = window.run(&volume, 2, |patch, [_, x, y, z]| {
                let places = (0..x * y * z).map(|at| [at / (y * z), at / z % y, at % z].map(|place| place as f32));
                let both = |of: fn(f32, [f32; 3]) -> f32| -> Vec<f32> {
                    patch.iter().zip(places.clone()).map(|(value, at)| of(*value, at)).collect()
                };
                let first = both(|value, [x, y, _]| value * (1.0 + 0.1 * x) + 0.2 * y);
                [first, both(|value, [_, _, z]| value - 0.3 * z)].concat()
            });
            let expected = fixture.tensor(name).unwrap();
            let expected = expected.data().chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap()));
            let found = found.unwrap();
            assert_eq!(found.len(), expected.len());
            let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest < 1e-5, "{name}: {largest}");
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

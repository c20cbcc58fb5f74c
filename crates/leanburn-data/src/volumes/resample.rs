//! Resampling by the trilinear interpolant, one axis after the other.
//!
//! Voxels are boxes (`align_corners = false`): both grids begin at the outer corner of their first
//! voxel. Output voxel `o` is centred at `(o + 0.5) * step - 0.5` input voxels. Enlarging takes the
//! interpolant's value there, as PyTorch does; shrinking takes its mean over the output voxel, so
//! that every input voxel counts. Either way a linear ramp stays exact. Beyond the border the
//! outermost voxel counts on.

use crate::error::DataError;
use crate::volumes::affine::{self, subgrid};
use crate::volumes::memory::{copied, zeros};
use crate::volumes::volume::Volume;
use rayon::prelude::*;

/// Another grid over the space of a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NewGrid {
    /// Voxels along x, y and z.
    pub(crate) extent: [usize; 3],
    /// Length of one of its voxels, in present ones.
    pub(crate) step: [f64; 3],
}

impl NewGrid {
    /// The grid of so many voxels.
    pub(crate) fn of_extent(volume: &Volume, extent: [usize; 3]) -> Self {
        let from = volume.extent();
        Self { extent, step: [0, 1, 2].map(|axis| from[axis] as f64 / extent[axis] as f64) }
    }

    /// The grid of voxels of so many millimetres.
    ///
    /// # Errors
    /// If a size is not positive.
    pub(crate) fn of_spacing(volume: &Volume, spacing: [f64; 3]) -> Result<Self, DataError> {
        if spacing.iter().any(|size| !(size.is_finite() && *size > 0.0)) {
            let found = format!("{spacing:?}");
            let remedy = "Give the voxel size in millimetres.";
            return Err(DataError::malformed("a positive spacing", found, remedy));
        }
        let (from, extent) = (volume.spacing(), volume.extent());
        let step = [0, 1, 2].map(|axis| spacing[axis] / from[axis]);
        let extent = [0, 1, 2].map(|axis| (extent[axis] as f64 / step[axis]).round().max(1.0) as usize);
        Ok(Self { extent, step })
    }
}

impl Volume {
    /// Resampled to a number of voxels along x, y and z; the space it covers stays the same.
    ///
    /// # Errors
    /// If an axis would be empty or there is no memory.
    pub fn resize(&self, extent: [usize; 3]) -> Result<Self, DataError> {
        self.on_new_grid(&NewGrid::of_extent(self, extent))
    }

    /// Resampled to voxels of `spacing` millimetres; the number of voxels is what comes nearest to
    /// the space covered, at least 1.
    ///
    /// # Errors
    /// If a spacing is not positive or there is no memory.
    pub fn resample(&self, spacing: [f64; 3]) -> Result<Self, DataError> {
        self.on_new_grid(&NewGrid::of_spacing(self, spacing)?)
    }

    pub(crate) fn on_new_grid(&self, grid: &NewGrid) -> Result<Self, DataError> {
        let NewGrid { extent, step } = *grid;
        if extent.contains(&0) {
            let remedy = "Give at least one voxel along every axis.";
            return Err(DataError::malformed("a grid with voxels", format!("{extent:?}"), remedy));
        }
        let from = self.extent();
        let mut shape = self.shape();
        let mut data = None;
        // The axis that shrinks most goes first: the others then have less to do.
        let mut order = [0, 1, 2];
        order.sort_by(|a, b| step[*b].total_cmp(&step[*a]));
        for axis in order.into_iter().filter(|axis| step[*axis] != 1.0 || extent[*axis] != from[*axis]) {
            let source = data.as_deref().unwrap_or(self.data());
            let (values, longer) = resample_axis(source, shape, axis + 1, extent[axis], step[axis])?;
            (data, shape) = (Some(values), longer);
        }
        let start = step.map(|step| 0.5 * step - 0.5);
        let data = data.map_or_else(|| copied(&shape, self.data()), Ok)?;
        self.on_grid(data, extent, subgrid(self.affine(), start, step))
    }

    /// Resampled to the grid of the file that the volume came from, and in its orientation.
    ///
    /// For volumes that were resized or resampled whole; not for patches. Where grid and axes stay, the values are not copied.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn into_original_grid(self) -> Result<Self, DataError> {
        let file = self.file();
        let orientation = file.orientation;
        let extent = orientation.shape(file.shape);
        let target = affine::spacing(&orientation.affine(&file.affine, file.shape));
        let spacing = self.spacing();
        let step = [0, 1, 2].map(|axis| target[axis] / spacing[axis]);
        // voxels of another size can be as many
        if extent == self.extent() && step.iter().all(|step| (step - 1.0).abs() < 1e-6) {
            return self.into_original_orientation();
        }
        let resampled = self.on_new_grid(&NewGrid { extent, step })?;
        drop(self);
        resampled.into_original_orientation()
    }
}

/// The input voxels of one output voxel: the first index and a weight for each from there on.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// Integral of the hat function of linear interpolation, from minus infinity to `at`.
fn hat_integral(at: f64) -> f64 {
    let at = at.clamp(-1.0, 1.0);
    if at < 0.0 { 0.5 * (at + 1.0).powi(2) } else { 1.0 - 0.5 * (1.0 - at).powi(2) }
}

fn taps(output: usize, step: f64, length: usize) -> Taps {
    let centre = (output as f64 + 0.5) * step - 0.5;
    let reach = if step > 1.0 { 0.5 * step + 1.0 } else { 1.0 };
    // One voxel beyond either border stands for all that lie there.
    let low = ((centre - reach).ceil() as i64).max(-1);
    let high = ((centre + reach).floor() as i64).min(length as i64);
    let border = |index: i64| index.clamp(0, length as i64 - 1) as usize;
    let (first, last) = (border(low), border(high));
    let mut weights = vec![0.0_f64; last - first + 1];
    for index in low..=high {
        let distance = centre - index as f64;
        let weight = match step > 1.0 {
            true => (hat_integral(distance + 0.5 * step) - hat_integral(distance - 0.5 * step)) / step,
            false => (1.0 - distance.abs()).max(0.0),
        };
        weights[border(index) - first] += weight;
    }
    let total: f64 = weights.iter().sum();
    if total > 0.0 {
        return Taps { first, weights: weights.iter().map(|weight| (weight / total) as f32).collect() };
    }
    Taps { first: border(centre.round() as i64), weights: vec![1.0] } // wholly beyond the border
}

fn resample_axis(
    data: &[f32],
    mut shape: [usize; 4],
    axis: usize,
    length: usize,
    step: f64,
) -> Result<(Vec<f32>, [usize; 4]), DataError> {
    let from = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    shape[axis] = length;
    let mut output = zeros(&shape)?;
    let all_taps: Vec<Taps> = (0..length).map(|index| taps(index, step, from)).collect();
    // One output row is `inner` values at one place along the axis.
    let rows = (16_384 / inner).max(1);
    output.par_chunks_mut(inner * rows).enumerate().for_each(|(chunk, values)| {
        for (row, values) in values.chunks_mut(inner).enumerate() {
            let row = chunk * rows + row;
            let (outer, taps) = (row / length, &all_taps[row % length]);
            for (tap, weight) in taps.weights.iter().enumerate() {
                let start = (outer * from + taps.first + tap) * inner;
                let source = &data[start..start + inner];
                values.iter_mut().zip(source).for_each(|(value, source)| *value += weight * source);
            }
        }
    });
    Ok((output, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::{IDENTITY, place};
    use ndarray::Array4;

    fn ramp(extent: [usize; 3]) -> Volume {
        let [x, y, z] = extent;
        let mut affine = IDENTITY;
        affine[0] = [2.0, 0.0, 0.0, -3.0];
        let mut data = Vec::new();
        for (i, j, k) in (0..x).flat_map(|i| (0..y).flat_map(move |j| (0..z).map(move |k| (i, j, k)))) {
            let [right, front, top] = place(&affine, [i, j, k]);
            data.push((right + 10.0 * front - 3.0 * top) as f32);
        }
        Volume::new(data, [1, x, y, z], affine).unwrap()
    }

    #[test]
    fn a_linear_ramp_is_exact_inside() {
        let volume = ramp([12, 15, 11]);
        let results = [
            volume.resize([12, 31, 7]),
            volume.resize([5, 4, 29]),
            volume.resample([2.7, 0.6, 1.9]),
            volume.resample([1.0, 2.0, 1.0]),
        ];
        for result in results {
            let result = result.unwrap();
            let [x, y, z] = result.extent();
            let spacing = result.spacing();
            let margin = [0, 1, 2].map(|axis| (2.0 / spacing[axis]).ceil() as usize);
            let mut checked = 0;
            for i in margin[0]..x - margin[0] {
                for j in margin[1]..y - margin[1] {
                    for k in margin[2]..z - margin[2] {
                        let [right, front, top] = place(result.affine(), [i, j, k]);
                        let expected = right + 10.0 * front - 3.0 * top;
                        let found = f64::from(result.view()[[0, i, j, k]]);
                        assert!((found - expected).abs() < 1e-3, "{found} for {expected} at {i} {j} {k}");
                        checked += 1;
                    }
                }
            }
            assert!(checked > 5, "{checked}");
        }
    }

    #[test]
    fn enlarging_is_that_of_torch() {
        // torch.nn.functional.interpolate([0., 4., 8.], size=6, mode="linear") is this.
        let volume = Volume::new(vec![0.0, 4.0, 8.0], [1, 1, 1, 3], IDENTITY).unwrap();
        assert_eq!(volume.resize([1, 1, 6]).unwrap().data(), [0.0, 1.0, 3.0, 5.0, 7.0, 8.0]);
    }

    #[test]
    fn shrinking_counts_every_voxel() {
        for spot in 0..16 {
            let mut data = vec![0.0; 16];
            data[spot] = 1.0;
            let volume = Volume::new(data, [1, 1, 16, 1], IDENTITY).unwrap();
            let small = volume.resize([1, 4, 1]).unwrap();
            let total: f32 = small.data().iter().sum();
            assert!((total - 0.25).abs() < 1e-6, "spot {spot} weighs {total}");
        }
    }

    #[test]
    fn channels_stay_apart_and_the_same_grid_is_the_same_volume() {
        let data: Vec<f32> = (0..2 * 27).map(|value| if value < 27 { 1.0 } else { 5.0 }).collect();
        let volume = Volume::new(data, [2, 3, 3, 3], IDENTITY).unwrap();
        let other = volume.resize([4, 2, 3]).unwrap();
        assert_eq!(other.shape(), [2, 4, 2, 3]);
        assert!(other.data()[..24].iter().all(|value| (value - 1.0).abs() < 1e-6));
        assert!(other.data()[24..].iter().all(|value| (value - 5.0).abs() < 1e-6));
        assert_eq!(volume.resize([3, 3, 3]).unwrap(), volume);
    }

    #[test]
    fn rejects_empty_and_absurd_grids() {
        let volume = ramp([3, 3, 3]);
        assert!(volume.resize([0, 1, 1]).unwrap_err().is_malformed());
        assert!(volume.resize([usize::MAX, 1, 1]).unwrap_err().is_too_large());
        assert!(volume.resample([0.0, 1.0, 1.0]).unwrap_err().is_malformed());
        assert!(volume.resample([1e-12, 1e-12, 1e-12]).unwrap_err().is_too_large());
        assert_eq!(volume.resample([1e9, 1.0, 1.0]).unwrap().extent(), [1, 3, 3]);
    }

    #[test]
    fn original_grid_is_exact_after_resizing() {
        let mut affine = IDENTITY;
        affine[0][0] = -2.0;
        affine[0][3] = 11.3;
        let values = Array4::from_shape_fn([1, 6, 7, 5], |(_, x, y, z)| (x + y + z) as f32);
        let volume = Volume::from_file_axes(values.view(), affine).unwrap();
        let as_many = volume.resample([2.1, 1.04, 0.97]).unwrap();
        assert_eq!(as_many.extent(), volume.extent());
        for other in [volume.resize([4, 9, 6]).unwrap(), volume.resample([1.5, 0.7, 0.8]).unwrap(), as_many] {
            let back = other.into_original_grid().unwrap();
            assert_eq!(back.shape(), [1, 6, 7, 5]);
            assert_eq!(back.affine(), &affine);
            assert!((back.view()[[0, 3, 3, 2]] - 8.0).abs() < 1e-4);
        }
    }
}

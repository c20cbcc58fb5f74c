//! A sample as if it had been scanned at a lower resolution.

use super::interpolate::trilinear;
use crate::error::DataError;
use crate::sampling::patch::Region;
use crate::volumes::zeros;

/// Takes every voxel from a copy `[x, y, z]` of a share of the resolution: nearest neighbours down, trilinear back, both as PyTorch's
/// `interpolate` (`nearest-exact`, `trilinear`).
///
/// # Memory
/// The copy: at most as much as the values.
///
/// # Errors
/// If there is no memory for it.
pub(super) fn lower(values: &mut [f32], extent: [usize; 3], share: f64) -> Result<(), DataError> {
    let small = extent.map(|length| ((length as f64 * share).round() as usize).max(1));
    let mut copy = zeros(&small)?;
    let down = |axis: usize, index: usize| {
        let place = (index as f64 + 0.5) * extent[axis] as f64 / small[axis] as f64;
        (place as usize).min(extent[axis] - 1)
    };
    for (index, value) in copy.iter_mut().enumerate() {
        let [x, y, z] = split(index, small);
        *value = values[(down(0, x) * extent[1] + down(1, y)) * extent[2] + down(2, z)];
    }
    let up = extent.map(|length| length as f64);
    let up = [0, 1, 2].map(|axis| small[axis] as f64 / up[axis]);
    let whole = Region::whole(small);
    for (index, value) in values.iter_mut().enumerate() {
        let voxel = split(index, extent);
        let place = [0, 1, 2].map(|axis| (voxel[axis] as f64 + 0.5) * up[axis] - 0.5);
        *value = trilinear(&copy, small, &whole, place);
    }
    Ok(())
}

fn split(index: usize, [_, y, z]: [usize; 3]) -> [usize; 3] {
    [index / (y * z), index / z % y, index % z]
}

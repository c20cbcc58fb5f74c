//! Values between voxels.

use crate::sampling::patch::Region;

/// A place along each axis, moved into the region.
fn inside(region: &Region, place: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|axis| place[axis].clamp(region.start[axis] as f64, (region.end[axis] - 1) as f64))
}

/// The trilinear interpolant of a channel `[x, y, z]` at a place; outside of the region its outermost voxels count on.
pub(crate) fn trilinear(values: &[f32], extent: [usize; 3], region: &Region, place: [f64; 3]) -> f32 {
    let place = inside(region, place);
    let low = place.map(|at| at as usize);
    let [x, y, z] = [0, 1, 2].map(|axis| (place[axis] - low[axis] as f64) as f32);
    let next = [0, 1, 2].map(|axis| usize::from(low[axis] + 1 < region.end[axis]));
    let first = (low[0] * extent[1] + low[1]) * extent[2] + low[2];
    let line = |start: usize| values[start] + (values[start + next[2]] - values[start]) * z;
    let plane = |start: usize| {
        let (near, far) = (line(start), line(start + next[1] * extent[2]));
        near + (far - near) * y
    };
    let (near, far) = (plane(first), plane(first + next[0] * extent[1] * extent[2]));
    near + (far - near) * x
}

/// The value of the voxel that a place lies in, or of the nearest one of the region.
pub(crate) fn nearest<T: Copy>(values: &[T], extent: [usize; 3], region: &Region, place: [f64; 3]) -> T {
    let [x, y, z] = inside(region, place).map(|at| (at + 0.5) as usize);
    values[(x * extent[1] + y) * extent[2] + z]
}

//! Rotation, scaling and elastic deformation: where each voxel of a patch is read.

use super::elastic::Elastic;
use crate::sampling::patch::{Cut, Region};
use std::fmt;

/// Voxel `o` of a patch with centre `c` is read at `c + R S (o + e(o) - c)`: a rotation `R`, a scaling `S` and a displacement `e`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Warp {
    /// About x, y and z.
    pub(crate) degrees: [f64; 3],
    pub(crate) scale: f64,
    pub(crate) elastic: Option<Elastic>,
}

impl Warp {
    /// `scale * Rx * Ry * Rz`.
    fn matrix(&self) -> [[f64; 3]; 3] {
        let [(sx, cx), (sy, cy), (sz, cz)] = self.degrees.map(|angle| angle.to_radians().sin_cos());
        let rotation = [
            [cy * cz, -cy * sz, sy],
            [cx * sz + sx * sy * cz, cx * cz - sx * sy * sz, -sx * cy],
            [sx * sz - cx * sy * cz, sx * cz + cx * sy * sz, cx * cy],
        ];
        rotation.map(|row| row.map(|entry| self.scale * entry))
    }

    /// Calls `visit` with the place in the volume of each voxel of a patch, the last axis fastest.
    fn places(&self, patch: &Cut, mut visit: impl FnMut([f64; 3])) {
        let Cut { start, size, flips, .. } = *patch;
        let matrix = self.matrix();
        let half = size.map(|length| (length as f64 - 1.0) / 2.0);
        let along = |axis: usize, index: usize| (if flips[axis] { size[axis] - 1 - index } else { index }) as f64;
        for i in 0..size[0] {
            for j in 0..size[1] {
                let row = [along(0, i), along(1, j)];
                let bent = self.elastic.as_ref().map(|elastic| elastic.row(row, size));
                for k in 0..size[2] {
                    let voxel = [row[0], row[1], along(2, k)];
                    let moved = bent.as_ref().map_or([0.0; 3], |bent| bent.displacement(voxel[2]));
                    let offset = [0, 1, 2].map(|axis| voxel[axis] + moved[axis] - half[axis]);
                    visit([0, 1, 2].map(|row| {
                        let [x, y, z] = matrix[row];
                        start[row] as f64 + half[row] + x * offset[0] + y * offset[1] + z * offset[2]
                    }));
                }
            }
        }
    }
}

impl fmt::Display for Warp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.degrees;
        write!(out, "rotated by {x:.0}, {y:.0} and {z:.0} degrees, scaled by {:.2}", self.scale)?;
        match &self.elastic {
            Some(elastic) => write!(out, ", bent by {:.2}", elastic.largest()),
            None => Ok(()),
        }
    }
}

/// A patch `[channels, size]` out of values `[channels, x, y, z]`, each voxel read where the warp says, by `interpolate`.
pub(crate) fn warp_into<T: Copy>(
    values: &mut [T],
    (source, shape): (&[T], [usize; 4]),
    patch: &Cut,
    warp: &Warp,
    interpolate: impl Fn(&[T], [usize; 3], &Region, [f64; 3]) -> T,
) {
    let [_, extent @ ..] = shape;
    let [x, y, z] = patch.size;
    let channels = source.chunks_exact(extent.iter().product());
    for (values, source) in values.chunks_exact_mut(x * y * z).zip(channels) {
        let mut values = values.iter_mut();
        warp.places(patch, |place| {
            if let Some(value) = values.next() {
                *value = interpolate(source, extent, &patch.region, place);
            }
        });
    }
}

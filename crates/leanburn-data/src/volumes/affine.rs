//! Affine maps from voxels to millimetres.

/// Maps voxel indices `(x, y, z, 1)` to millimetres: rows are world axes (right, anterior,
/// superior), columns are voxel axes and the position of voxel `(0, 0, 0)`.
pub type Affine = [[f64; 4]; 4];

pub(crate) const IDENTITY: Affine =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

/// Length of one voxel along each axis, in millimetres.
pub(crate) fn spacing(affine: &Affine) -> [f64; 3] {
    [0, 1, 2].map(|axis| (0..3).map(|row| affine[row][axis].powi(2)).sum::<f64>().sqrt())
}

/// Whether every voxel has a place of its own: all entries finite, axes independent.
pub(crate) fn is_sound(affine: &Affine) -> bool {
    let volume: f64 = spacing(affine).iter().product();
    let finite = affine.iter().flatten().all(|entry| entry.is_finite());
    finite && volume > 0.0 && volume.is_finite() && determinant(affine).abs() > 1e-6 * volume
}

fn determinant(affine: &Affine) -> f64 {
    let minor = |a: usize, b: usize| affine[1][a] * affine[2][b] - affine[1][b] * affine[2][a];
    affine[0][0] * minor(1, 2) - affine[0][1] * minor(0, 2) + affine[0][2] * minor(0, 1)
}

/// The affine of a grid whose voxel `i` lies at `start + step * i` (in voxels of `affine`).
pub(crate) fn subgrid(affine: &Affine, start: [f64; 3], step: [f64; 3]) -> Affine {
    let mut result = *affine;
    for row in 0..3 {
        for axis in 0..3 {
            result[row][axis] = affine[row][axis] * step[axis];
            result[row][3] += affine[row][axis] * start[axis];
        }
    }
    result
}

/// Whether two grids agree to a millionth of a voxel.
pub(crate) fn nearly_equal(left: &Affine, right: &Affine) -> bool {
    let scale = left.iter().flatten().fold(0.0_f64, |largest, entry| largest.max(entry.abs()));
    let pairs = left.iter().flatten().zip(right.iter().flatten());
    pairs.fold(true, |equal, (a, b)| equal && (a - b).abs() <= 1e-9 * scale)
}

/// Whether two grids of `extent` have their corners at the same place, to so many voxels of the first.
pub(crate) fn is_same_place(one: &Affine, other: &Affine, extent: [usize; 3], voxels: f64) -> bool {
    let tolerance = voxels * spacing(one).into_iter().fold(f64::INFINITY, f64::min);
    (0..8).all(|corner: usize| {
        let voxel = [0, 1, 2].map(|axis| (extent[axis] - 1) * (corner >> axis & 1));
        let pairs = place(one, voxel).into_iter().zip(place(other, voxel));
        pairs.map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt() <= tolerance
    })
}

/// Where a voxel is, in millimetres.
pub(crate) fn place(affine: &Affine, voxel: [usize; 3]) -> [f64; 3] {
    [0, 1, 2].map(|row| affine[row][3] + (0..3).map(|axis| affine[row][axis] * voxel[axis] as f64).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgrid_places_its_voxels() {
        let affine = [[0.0, 2.0, 0.1, 5.0], [3.0, 0.0, 0.0, -1.0], [0.0, 0.2, 4.0, 7.0], IDENTITY[3]];
        let sub = subgrid(&affine, [1.0, 2.0, 3.0], [2.0, 1.0, 3.0]);
        let (found, expected) = (place(&sub, [1, 1, 1]), place(&affine, [3, 3, 6]));
        assert!((0..3).all(|axis| (found[axis] - expected[axis]).abs() < 1e-12));
    }

    #[test]
    fn same_place_means_the_same_corners() {
        let mut scaled = IDENTITY;
        scaled[2][2] = 1.01;
        assert!(is_same_place(&IDENTITY, &scaled, [1, 1, 11], 0.11));
        assert!(!is_same_place(&IDENTITY, &scaled, [1, 1, 13], 0.11));
        assert!(is_same_place(&IDENTITY, &scaled, [99, 99, 1], 0.0));
    }

    #[test]
    fn soundness() {
        assert!(is_sound(&IDENTITY));
        let mut flat = IDENTITY;
        flat[2][2] = 0.0;
        assert!(!is_sound(&flat));
        let mut parallel = IDENTITY;
        parallel[0] = [1.0, 1.0, 0.0, 0.0];
        parallel[1] = [0.0, 0.0, 0.0, 0.0];
        assert!(!is_sound(&parallel));
        let mut unknown = IDENTITY;
        unknown[0][3] = f64::NAN;
        assert!(!is_sound(&unknown));
    }
}

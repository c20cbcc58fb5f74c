//! Elastic deformation by cubic B-splines between random displacements of control points
//! ([Rueckert et al. 1999](https://doi.org/10.1109/42.796284)).
//!
//! Displacements below 0.4 of the distance of control points fold nothing
//! ([Choi and Lee 2000](https://doi.org/10.1109/CGIV.2000.855749)).

use rand::{Rng, RngExt};

/// Distances of control points along each axis of a patch.
const SPANS: usize = 4;
/// Control points along each axis: a cubic B-spline needs one before and two behind each span.
const POINTS: usize = SPANS + 3;

/// Random displacements of control points, in distances of control points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Elastic {
    /// `[x, y, z]` of `POINTS` each, the last axis fastest.
    points: Vec<[f64; 3]>,
}

impl Elastic {
    /// Displacements along each axis that are drawn uniformly up to `largest`.
    pub(crate) fn draw(largest: f64, random: &mut impl Rng) -> Self {
        let mut draw = || [0; 3].map(|_| random.random_range(-largest..=largest));
        Self { points: (0..POINTS.pow(3)).map(|_| draw()).collect() }
    }

    #[cfg(test)]
    pub(super) fn of(points: Vec<[f64; 3]>) -> Self {
        assert_eq!(points.len(), POINTS.pow(3));
        Self { points }
    }

    /// The largest displacement along an axis.
    pub(crate) fn largest(&self) -> f64 {
        self.points.iter().flatten().fold(0.0, |largest: f64, part| largest.max(part.abs()))
    }

    /// The deformation of a row of a patch, whose voxels have the same x and y.
    pub(crate) fn row(&self, [x, y]: [f64; 2], size: [usize; 3]) -> Row {
        let distance = size.map(|length| (length as f64 - 1.0) / SPANS as f64);
        let [(i, x), (j, y)] = [basis(x, distance[0]), basis(y, distance[1])];
        let mut points = [[0.0; 3]; POINTS];
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            let line = &self.points[((i + a) * POINTS + j + b) * POINTS..][..POINTS];
            for (sum, point) in points.iter_mut().zip(line) {
                (0..3).for_each(|axis| sum[axis] += x[a] * y[b] * point[axis] * distance[axis]);
            }
        }
        Row { points, distance: distance[2] }
    }
}

/// The control points of a row, in voxels.
#[derive(Debug)]
pub(crate) struct Row {
    points: [[f64; 3]; POINTS],
    distance: f64,
}

impl Row {
    /// How far the voxel at `z` is moved, in voxels.
    pub(crate) fn displacement(&self, z: f64) -> [f64; 3] {
        let (first, weights) = basis(z, self.distance);
        let points = &self.points[first..first + 4];
        [0, 1, 2].map(|axis| points.iter().zip(weights).map(|(point, weight)| weight * point[axis]).sum())
    }
}

/// The first of the four control points that count at a place, and their weights.
fn basis(at: f64, distance: f64) -> (usize, [f64; 4]) {
    let place = if distance > 0.0 { at / distance } else { 0.0 };
    let span = (place as usize).min(SPANS - 1);
    let t = place - span as f64;
    let (t2, t3) = (t * t, t * t * t);
    let weights = [(1.0 - t).powi(3), 3.0 * t3 - 6.0 * t2 + 4.0, -3.0 * t3 + 3.0 * t2 + 3.0 * t + 1.0, t3];
    (span, weights.map(|weight| weight / 6.0))
}

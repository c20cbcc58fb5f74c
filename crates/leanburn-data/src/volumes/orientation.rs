//! How the axes of a file lie in the body.

use crate::error::DataError;
use crate::volumes::affine::{Affine, spacing, subgrid};
use crate::volumes::memory::zeros;
use ndarray::{Array4, ArrayView4, Axis};

/// How the axes of a file lie in the body.
///
/// Axis `w` of the RAS volume (right, anterior, superior) is file axis `axes[w]`, read backwards
/// where `flips[w]` is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orientation {
    /// File axis of each RAS axis.
    pub axes: [usize; 3],
    /// Whether the file axis runs against the RAS axis.
    pub flips: [bool; 3],
}

impl Orientation {
    /// Already in RAS order.
    pub const RAS: Self = Self { axes: [0, 1, 2], flips: [false; 3] };

    /// The order and direction of axes that come closest to RAS under `affine`.
    pub fn of(affine: &Affine) -> Self {
        const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let spacing = spacing(affine);
        let along = |axes: &[usize; 3]| -> f64 {
            (0..3).map(|world| (affine[world][axes[world]] / spacing[axes[world]]).abs()).sum()
        };
        let mut axes = ORDERS[0];
        for order in &ORDERS[1..] {
            // The margin keeps the earlier order where an oblique scan leaves the choice open.
            if along(order) > along(&axes) + 1e-9 {
                axes = *order;
            }
        }
        let flips = [0, 1, 2].map(|world| affine[world][axes[world]] < 0.0);
        Self { axes, flips }
    }

    /// The orientation that undoes this one.
    pub fn inverse(&self) -> Self {
        let mut inverse = Self::RAS;
        for world in 0..3 {
            inverse.axes[self.axes[world]] = world;
            inverse.flips[self.axes[world]] = self.flips[world];
        }
        inverse
    }

    /// The three letters of the file's axes, such as "LPS".
    pub fn codes(&self) -> String {
        const LETTERS: [[char; 2]; 3] = [['R', 'L'], ['A', 'P'], ['S', 'I']];
        let inverse = self.inverse();
        (0..3).map(|axis| LETTERS[inverse.axes[axis]][usize::from(inverse.flips[axis])]).collect()
    }

    /// The affine after the axes of a grid of `shape` were put in order.
    pub(crate) fn affine(&self, affine: &Affine, shape: [usize; 3]) -> Affine {
        let (mut start, mut step) = ([0.0; 3], [1.0; 3]);
        for world in (0..3).filter(|world| self.flips[*world]) {
            let axis = self.axes[world];
            (start[axis], step[axis]) = (shape[axis] as f64 - 1.0, -1.0);
        }
        let turned = subgrid(affine, start, step);
        turned.map(|row| [row[self.axes[0]], row[self.axes[1]], row[self.axes[2]], row[3]])
    }

    pub(crate) fn shape(&self, shape: [usize; 3]) -> [usize; 3] {
        self.axes.map(|axis| shape[axis])
    }

    /// Puts the spatial axes of `[channels, ...]` in order, last axis fastest.
    ///
    /// # Errors
    /// If there is no memory for the values.
    pub(crate) fn apply(&self, values: ArrayView4<'_, f32>) -> Result<Array4<f32>, DataError> {
        let [x, y, z] = self.axes.map(|axis| axis + 1);
        let mut view = values.permuted_axes([0, x, y, z]);
        for world in (0..3).filter(|world| self.flips[*world]) {
            view.invert_axis(Axis(world + 1));
        }
        let (channels, x, y, z) = view.dim();
        let ordered = zeros(&[channels, x, y, z])?;
        let mut ordered = Array4::from_shape_vec(view.dim(), ordered).expect("as many values as the view has");
        ordered.assign(&view);
        Ok(ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::{IDENTITY, place};

    fn all() -> Vec<Orientation> {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let flips = |bits: usize| [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
        orders.iter().flat_map(|axes| (0..8).map(move |bits| Orientation { axes: *axes, flips: flips(bits) })).collect()
    }

    #[test]
    fn every_orientation_brings_a_marked_voxel_to_its_place() {
        let (shape, marked) = ([3, 4, 5], [1, 3, 0]);
        let mut ras = Array4::<f32>::zeros([1, 3, 4, 5]);
        ras[[0, 1, 3, 0]] = 1.0;
        let affine = [[1.0, 0.0, 0.0, -7.0], [0.0, 2.0, 0.0, -14.0], [0.0, 0.0, 3.0, -21.0], IDENTITY[3]];
        for orientation in all() {
            let to_file = orientation.inverse();
            let file = to_file.apply(ras.view()).unwrap();
            let file_affine = to_file.affine(&affine, shape);
            assert_eq!(Orientation::of(&file_affine), orientation);
            let back = orientation.apply(file.view()).unwrap();
            assert_eq!(back, ras, "{orientation:?}");
            let back_affine = orientation.affine(&file_affine, to_file.shape(shape));
            assert_eq!(back_affine, affine);
            // Where the file says that the marked voxel is, there it is.
            let (at, _) = file.indexed_iter().find(|(_, value)| **value == 1.0).unwrap();
            assert_eq!(place(&file_affine, [at.1, at.2, at.3]), place(&affine, marked));
        }
        assert_eq!(all().len(), 48);
    }

    #[test]
    fn codes_name_the_file_axes() {
        assert_eq!(Orientation::RAS.codes(), "RAS");
        let mut affine = IDENTITY;
        affine[0][0] = -1.0;
        affine[1][1] = -1.0;
        assert_eq!(Orientation::of(&affine).codes(), "LPS");
        let cyclic = [[0.0, 0.0, 1.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], IDENTITY[3]];
        assert_eq!(Orientation::of(&cyclic).codes(), "PSR");
    }
}

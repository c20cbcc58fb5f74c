//! A volume: channels of values on a grid, in RAS order, with its place in the body.

use crate::error::DataError;
use crate::volumes::affine::{self, Affine};
use crate::volumes::intensity::Intensity;
use crate::volumes::memory::count;
use crate::volumes::orientation::Orientation;
use ndarray::{Array4, ArrayView4};

/// How a volume lay in its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FileGrid {
    pub(super) shape: [usize; 3],
    pub(super) affine: Affine,
    pub(super) orientation: Orientation,
}

/// One scan, or any other function of space: `channels` values at every voxel of a grid.
///
/// # Shapes
/// `[channels, x, y, z]`, the last axis fastest. Volumes that were read from a NIfTI file have
/// their axes in RAS order: x to the right, y to the front, z to the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    data: Vec<f32>,
    shape: [usize; 4],
    affine: Affine,
    file: FileGrid,
}

impl Volume {
    /// A volume from its values, its shape `[channels, x, y, z]` and its affine (voxel to
    /// millimetres).
    ///
    /// # Errors
    /// If an axis is empty, the number of values is not that of the shape, a value is infinite or
    /// not a number, or the affine is singular.
    ///
    /// # Example
    /// ```
    /// use leanburn_data::Volume;
    /// let two_millimetres =
    ///     [[2., 0., 0., 0.], [0., 2., 0., 0.], [0., 0., 2., 0.], [0., 0., 0., 1.]];
    /// let volume = Volume::new(vec![0.0; 24], [1, 2, 3, 4], two_millimetres)?;
    /// assert_eq!(volume.spacing(), [2.0; 3]);
    /// # Ok::<(), leanburn_data::DataError>(())
    /// ```
    pub fn new(data: Vec<f32>, shape: [usize; 4], affine: Affine) -> Result<Self, DataError> {
        check_shape(&shape, data.len())?;
        check_finite(&data, shape)?;
        if !affine::is_sound(&affine) {
            return Err(DataError::malformed(
                "an affine with three independent axes",
                format!("{affine:?}"),
                "Write the volume again with its true voxel size.",
            ));
        }
        let [_, x, y, z] = shape;
        let file = FileGrid { shape: [x, y, z], affine, orientation: Orientation::RAS };
        Ok(Self { data, shape, affine, file })
    }

    /// A volume whose axes lie as in a file: brought to RAS order; the file's grid is remembered.
    pub(crate) fn from_file_axes(values: ArrayView4<'_, f32>, affine: Affine) -> Result<Self, DataError> {
        let (_, x, y, z) = values.dim();
        let orientation = Orientation::of(&affine);
        let file = FileGrid { shape: [x, y, z], affine, orientation };
        let data = orientation.apply(values)?;
        let (channels, right, front, top) = data.dim();
        let shape = [channels, right, front, top];
        let affine = orientation.affine(&affine, file.shape);
        let volume = Self::new(data.into_raw_vec_and_offset().0, shape, affine)?;
        Ok(Self { file, ..volume })
    }

    /// The values, last axis fastest.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Takes the values out.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// `[channels, x, y, z]`.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.shape[0]
    }

    /// Number of voxels along x, y and z.
    pub fn extent(&self) -> [usize; 3] {
        [self.shape[1], self.shape[2], self.shape[3]]
    }

    /// Voxel indices to millimetres.
    pub fn affine(&self) -> &Affine {
        &self.affine
    }

    /// Size of a voxel in millimetres.
    pub fn spacing(&self) -> [f64; 3] {
        affine::spacing(&self.affine)
    }

    /// How the axes lay in the file that the volume came from.
    pub fn original_orientation(&self) -> Orientation {
        self.file.orientation
    }

    /// Other values on the same grid, as a model gives them back: `[channels, x, y, z]`.
    ///
    /// # Errors
    /// As [`Volume::new`].
    pub fn with_data(&self, data: Vec<f32>, channels: usize) -> Result<Self, DataError> {
        let [x, y, z] = self.extent();
        let volume = Self::new(data, [channels, x, y, z], self.affine)?;
        Ok(Self { file: self.file, ..volume })
    }

    /// Other values on another grid of the same space; the file's grid is remembered.
    pub(crate) fn on_grid(&self, data: Vec<f32>, extent: [usize; 3], affine: Affine) -> Result<Self, DataError> {
        let [x, y, z] = extent;
        let volume = Self::new(data, [self.channels(), x, y, z], affine)?;
        Ok(Self { file: self.file, ..volume })
    }

    /// The axes as they lay in the file, so that a written copy matches it voxel by voxel.
    ///
    /// The result is no longer in RAS order: write it, do not train on it. A volume that was not
    /// resampled lands on the file's affine bit by bit. Where the axes stay, the values are not copied.
    ///
    /// # Errors
    /// If there is no memory for a copy.
    pub fn into_original_orientation(self) -> Result<Self, DataError> {
        let FileGrid { shape: file_shape, affine: file_affine, orientation } = self.file;
        let back = orientation.inverse();
        let mut affine = back.affine(&self.affine, self.extent());
        let (data, shape) = match orientation == Orientation::RAS {
            true => (self.data, self.shape),
            false => {
                let view: Array4<f32> = back.apply(self.view())?;
                let (channels, x, y, z) = view.dim();
                (view.into_raw_vec_and_offset().0, [channels, x, y, z])
            }
        };
        let extent = [shape[1], shape[2], shape[3]];
        if extent == file_shape && affine::nearly_equal(&file_affine, &affine) {
            affine = file_affine;
        }
        Ok(Self { data, shape, affine, file: FileGrid { shape: extent, affine, orientation: Orientation::RAS } })
    }

    /// In input units, where normalizing did this; in place.
    #[must_use]
    pub fn in_units(mut self, intensity: &Intensity) -> Self {
        intensity.invert(&mut self.data);
        self
    }

    /// How the volume lay in its file.
    pub(super) fn file(&self) -> &FileGrid {
        &self.file
    }

    pub(crate) fn view(&self) -> ArrayView4<'_, f32> {
        ArrayView4::from_shape(self.shape, &self.data).expect("the constructor checked the length")
    }
}

fn check_shape(shape: &[usize; 4], length: usize) -> Result<(), DataError> {
    if shape.contains(&0) {
        let found = format!("shape {shape:?}");
        let remedy = "The volume is empty; export it again.";
        return Err(DataError::malformed("at least one voxel along every axis", found, remedy));
    }
    let expected = count(shape)?;
    if expected != length {
        let expected = format!("{expected} values for shape {shape:?}");
        let remedy = "Give the shape of the values.";
        return Err(DataError::malformed(expected, format!("{length} values"), remedy));
    }
    Ok(())
}

fn check_finite(data: &[f32], shape: [usize; 4]) -> Result<(), DataError> {
    let count = data.iter().filter(|value| !value.is_finite()).count();
    let Some(mut first) = data.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let value = data[first];
    let mut index = [0; 4];
    for axis in (0..4).rev() {
        index[axis] = first % shape[axis];
        first /= shape[axis];
    }
    let [channel, x, y, z] = index;
    let place = format!("channel {channel}, voxel [{x}, {y}, {z}]");
    Err(DataError::NotFinite { path: "volume in memory".into(), place, value, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    #[test]
    fn constructor_rejects_what_is_not_a_volume() {
        let fails = |data: Vec<f32>, shape| Volume::new(data, shape, IDENTITY).unwrap_err();
        assert!(fails(vec![], [1, 0, 1, 1]).to_string().contains("[1, 0, 1, 1]"));
        assert!(fails(vec![0.0; 3], [1, 2, 1, 1]).to_string().contains("3 values"));
        assert!(fails(vec![], [1, usize::MAX, 3, 2]).is_too_large());
        let error = fails(vec![0.0, 0.0, 0.0, f32::NAN, 0.0, f32::INFINITY], [1, 1, 2, 3]);
        assert!(error.is_not_finite());
        assert!(error.to_string().contains("found 2") && error.to_string().contains("[0, 1, 0]"));
        let error = Volume::new(vec![0.0], [1, 1, 1, 1], [[0.0; 4]; 4]).unwrap_err();
        assert!(error.is_malformed());
    }

    #[test]
    fn original_orientation_is_exact() {
        let affine = [[0.1, -0.3, 1.7, 3.1], [-1.1, 0.02, 0.1, 9.7], [0.03, 1.3, 0.2, -77.7], IDENTITY[3]];
        let values = Array4::from_shape_fn([2, 3, 4, 5], |(c, x, y, z)| (c * 1000 + x * 100 + y * 10 + z) as f32);
        let volume = Volume::from_file_axes(values.view(), affine).unwrap();
        assert_eq!(volume.shape(), [2, 5, 3, 4]);
        assert_ne!(volume.affine(), &affine);
        let back = volume.into_original_orientation().unwrap();
        assert_eq!(back.affine(), &affine);
        assert_eq!(back.view(), values);
    }

    #[test]
    fn what_lies_as_in_its_file_goes_back_without_a_copy() {
        let volume = Volume::new(vec![0.0; 24], [1, 2, 3, 4], IDENTITY).unwrap();
        let place = volume.data().as_ptr();
        let back = volume.into_original_grid().unwrap().in_units(&Intensity { scale: 0.5, offset: -1.0 });
        assert_eq!((back.data().as_ptr(), back.data()[0]), (place, 2.0));
    }
}

//! Label maps: one class at every voxel, as segmentation needs them.

use crate::error::DataError;
use crate::volumes::affine::{Affine, is_sound, subgrid};
use crate::volumes::memory::{copied, count, reserved, zeros};
use crate::volumes::resample::NewGrid;
use crate::volumes::volume::Volume;

/// The most classes of a label map: labels are 8-bit numbers.
pub(crate) const MOST_CLASSES: usize = 256;

/// A class at every voxel of a grid; class 0 is the background.
///
/// # Shapes
/// `[x, y, z]`, the last axis fastest, as the volume it belongs to.
///
/// # Memory
/// One byte a voxel.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelMap {
    data: Vec<u8>,
    extent: [usize; 3],
    affine: Affine,
}

impl LabelMap {
    /// A label map from its labels, its extent `[x, y, z]` and its affine (voxel to millimetres).
    ///
    /// # Errors
    /// If an axis is empty, the number of labels is not that of the extent, or the affine is singular.
    ///
    /// # Example
    /// ```
    /// use leanburn_data::{LabelMap, phantom};
    /// let volume = phantom([8, 8, 8], 0.0, 1)?;
    /// let labels = volume.data().iter().map(|value| u8::from(*value > 0.5)).collect();
    /// let labels = LabelMap::new(labels, volume.extent(), *volume.affine())?;
    /// assert_eq!(labels.extent(), [8, 8, 8]);
    /// # Ok::<(), leanburn_data::DataError>(())
    /// ```
    pub fn new(data: Vec<u8>, extent: [usize; 3], affine: Affine) -> Result<Self, DataError> {
        if data.len() != count(&extent)? || data.is_empty() {
            let expected = format!("one label for each voxel of extent {extent:?}, 1 or more");
            return Err(DataError::malformed(
                expected,
                format!("{} labels", data.len()),
                "Give the extent of the labels.",
            ));
        }
        if !is_sound(&affine) {
            let expected = "an affine with three independent axes";
            return Err(DataError::malformed(expected, format!("{affine:?}"), "Give the affine of the volume."));
        }
        Ok(Self { data, extent, affine })
    }

    /// The labels that a file of numbers holds: whole numbers from 0 to 255 in one channel.
    ///
    /// # Errors
    /// If the volume has several channels, or a value is another number.
    pub fn from_volume(volume: &Volume) -> Result<Self, DataError> {
        let label = |value: &f32| (0.0..=255.0).contains(value) && value.fract() == 0.0;
        let remedy = "Save a label map with one class number for each voxel, or name class maps instead.";
        if volume.channels() != 1 {
            let found = format!("{} channels", volume.channels());
            return Err(DataError::malformed("labels in one channel", found, remedy));
        }
        if let Some(other) = volume.data().iter().find(|value| !label(value)) {
            return Err(DataError::malformed("labels that are whole numbers from 0 to 255", other.to_string(), remedy));
        }
        let mut data = reserved(&volume.shape(), volume.data().len())?;
        data.extend(volume.data().iter().map(|value| *value as u8));
        Self::new(data, volume.extent(), *volume.affine())
    }

    /// The class with the largest score at every voxel; the first of equal ones.
    ///
    /// # Shapes
    /// `scores`: `[num_classes, x, y, z]`, such as logits or probabilities.
    ///
    /// # Errors
    /// If there are more than 256 classes, or no memory.
    pub fn argmax(scores: &Volume) -> Result<Self, DataError> {
        let (classes, extent) = (scores.channels(), scores.extent());
        if classes > MOST_CLASSES {
            let expected = format!("at most {MOST_CLASSES} classes");
            return Err(DataError::malformed(expected, classes.to_string(), "Use fewer classes."));
        }
        let mut data: Vec<u8> = zeros(&extent)?;
        let mut best = copied(&extent, &scores.data()[..data.len()])?;
        for (class, scores) in scores.data().chunks_exact(data.len()).enumerate().skip(1) {
            for ((label, best), score) in data.iter_mut().zip(&mut best).zip(scores) {
                if *score > *best {
                    (*label, *best) = (class as u8, *score);
                }
            }
        }
        Self::new(data, extent, *scores.affine())
    }

    /// The labels, last axis fastest.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Takes the labels out.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// Number of voxels along x, y and z.
    pub fn extent(&self) -> [usize; 3] {
        self.extent
    }

    /// Voxel indices to millimetres.
    pub fn affine(&self) -> &Affine {
        &self.affine
    }

    /// The labels on another grid: each voxel takes the label of the voxel that its centre lies in.
    pub(crate) fn resample(&self, grid: &NewGrid) -> Result<Self, DataError> {
        let [_, y, z] = grid.extent;
        let mut data = zeros(&grid.extent)?;
        let indices = [0, 1, 2].map(|axis| -> Vec<usize> {
            let nearest = |index: usize| ((index as f64 + 0.5) * grid.step[axis]) as usize;
            (0..grid.extent[axis]).map(|index| nearest(index).min(self.extent[axis] - 1)).collect()
        });
        for (row, labels) in data.chunks_exact_mut(z).enumerate() {
            let line = (indices[0][row / y] * self.extent[1] + indices[1][row % y]) * self.extent[2];
            let source = &self.data[line..line + self.extent[2]];
            labels.iter_mut().zip(&indices[2]).for_each(|(label, index)| *label = source[*index]);
        }
        let start = grid.step.map(|step| 0.5 * step - 0.5);
        Self::new(data, grid.extent, subgrid(&self.affine, start, grid.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    #[test]
    fn labels_are_whole_numbers_on_a_grid() {
        assert!(LabelMap::new(vec![0; 3], [2, 1, 1], IDENTITY).unwrap_err().to_string().contains("3 labels"));
        assert!(LabelMap::new(vec![], [0, 1, 1], IDENTITY).unwrap_err().is_malformed());
        assert!(LabelMap::new(vec![0], [1; 3], [[0.0; 4]; 4]).unwrap_err().to_string().contains("affine"));
        let volume = |values: Vec<f32>| Volume::new(values, [1, 1, 1, 3], IDENTITY).unwrap();
        let labels = LabelMap::from_volume(&volume(vec![0.0, 255.0, 2.0])).unwrap();
        assert_eq!((labels.data(), labels.extent()), (&[0, 255, 2][..], [1, 1, 3]));
        for wrong in [0.5, -1.0, 256.0] {
            let error = LabelMap::from_volume(&volume(vec![0.0, wrong, 1.0])).unwrap_err().to_string();
            assert!(error.contains(&wrong.to_string()), "{error}");
        }
        let two = Volume::new(vec![0.0; 2], [2, 1, 1, 1], IDENTITY).unwrap();
        assert!(LabelMap::from_volume(&two).unwrap_err().to_string().contains("2 channels"));
    }

    #[test]
    fn argmax_takes_the_first_of_equal_scores() {
        let scores = vec![0.5, 0.1, 0.2, 0.5, 0.8, 0.2, 0.0, 0.9, 0.3];
        let scores = Volume::new(scores, [3, 1, 1, 3], IDENTITY).unwrap();
        assert_eq!(LabelMap::argmax(&scores).unwrap().data(), [0, 2, 2]);
        let many = Volume::new(vec![0.0; 257], [257, 1, 1, 1], IDENTITY).unwrap();
        assert!(LabelMap::argmax(&many).unwrap_err().to_string().contains("257"));
    }

    #[test]
    fn resampling_takes_the_nearest_label() {
        let labels = LabelMap::new((0..24).collect(), [2, 3, 4], IDENTITY).unwrap();
        let volume = Volume::new(vec![0.0; 24], [1, 2, 3, 4], IDENTITY).unwrap();
        let same = labels.resample(&NewGrid::of_extent(&volume, [2, 3, 4])).unwrap();
        assert_eq!(same, labels);
        let double = labels.resample(&NewGrid::of_extent(&volume, [2, 3, 8])).unwrap();
        assert_eq!(double.data()[..8], [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(double.affine(), volume.resize([2, 3, 8]).unwrap().affine());
        let half = labels.resample(&NewGrid::of_extent(&volume, [1, 3, 2])).unwrap();
        assert_eq!(half.data(), [13, 15, 17, 19, 21, 23]);
        let coarse = labels.resample(&NewGrid::of_spacing(&volume, [1.0, 1.0, 3.0]).unwrap()).unwrap();
        assert_eq!((coarse.extent(), &coarse.data()[..2]), ([2, 3, 1], &[1, 5][..]));
    }
}
